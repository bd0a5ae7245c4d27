#!/usr/bin/env python3
"""Translates the PTX in an object file of nvcc to C++ (README.md tells what for).

ptx2cpp.py OBJECT PREFIX COUNT    writes PREFIX.0.cpp … PREFIX.COUNT-1.cpp, each with a share of the kernels

A kernel becomes a function of one GPU thread, and a register a variable of the same width (B16, B32, B64 in ptx.h). The object must
not be compressed (nvcc --no-compress). An instruction that is not known is an error.
"""
import re
import struct
import sys

SIZES = {'b8': 1, 'u8': 1, 's8': 1, 'b16': 2, 'u16': 2, 's16': 2, 'f16': 2, 'bf16': 2, 'b32': 4, 'u32': 4, 's32': 4, 'f32': 4,
         'f16x2': 4, 'bf16x2': 4, 'b64': 8, 'u64': 8, 's64': 8, 'f64': 8}
TYPES = {'pred': 'bool', 'f32': 'float', 'f64': 'double'}
for name, size in SIZES.items():
    TYPES.setdefault(name, f"std::{'' if name[0] == 's' else 'u'}int{8 * size}_t")
ROUNDING = {'rz': 'FE_TOWARDZERO', 'rm': 'FE_DOWNWARD', 'rp': 'FE_UPWARD'}
SPECIAL = {'%laneid': 'lane(t)', '%lanemask_lt': '((1u << lane(t)) - 1)', '%lanemask_le': '((2u << lane(t)) - 1)',
           '%lanemask_eq': '(1u << lane(t))', '%lanemask_gt': '~((2u << lane(t)) - 1)', '%lanemask_ge': '~((1u << lane(t)) - 1)',
           '%warpid': '(flat(t) / 32)', 'WARP_SZ': '32'}
for dim, letter in enumerate('xyz'):
    for name in ('tid', 'ntid', 'ctaid', 'nctaid'):
        SPECIAL[f'%{name}.{letter}'] = f't.{name}[{dim}]'


class Unknown(Exception):
    pass


def ptx_in(data):
    """The first PTX text in an object's section of GPU code, whose entries are PTX (kind 1) or machine code (2)."""
    start = data.find(struct.pack('<I', 0xBA55ED50))
    if start < 0:
        return ''  # no kernels
    _, _, header, length = struct.unpack_from('<IHHQ', data, start)
    at, end = start + header, start + header + length
    while at < end:
        kind, _, header, length = struct.unpack_from('<HHIQ', data, at)
        text = data[at + header:at + header + length]
        if kind == 1 and b'.version' in text:
            return text.rstrip(b'\0').decode()
        at += header + length
    raise Unknown('there is no PTX, or it is compressed: compile for an architecture like 90-virtual with --no-compress')


def identifier(name):
    return re.sub(r'\W', '_S', name)


def split(text):
    """Parts between commas that are outside of brackets."""
    parts, depth, part = [], 0, ''
    for c in text:
        depth += (c in '[{(') - (c in ')}]')
        if c == ',' and depth == 0:
            parts.append(part.strip())
            part = ''
        else:
            part += c
    return parts + [part.strip()] if part.strip() else parts


def parameters(text):
    """(name, bytes, alignment) of each."""
    found = []
    for p in split(text):
        m = re.fullmatch(r'\.param\s+(?:\.align\s+(\d+)\s+)?\.(\w+)\s+(?:\.ptr.*\s)?([\w$]+)(?:\[(\d+)\])?', p)
        if not m:
            raise Unknown('parameter ' + p)
        found.append((m[3], SIZES[m[2]] * int(m[4] or 1), int(m[1] or SIZES[m[2]])))
    return found


class Function:
    """The body of a kernel or function, translated statement by statement."""

    def __init__(self, module, params):
        self.module, self.params = module, params  # params: their offsets in a kernel's block of parameters
        self.registers, self.arrays, self.shared = {}, set(), {}
        self.shared_bytes, self.collective, self.lines, self.labels = 0, False, [], set()

    def share(self, name, align, size):
        self.shared_bytes = -(-self.shared_bytes // align) * align
        self.shared[name] = self.shared_bytes
        self.shared_bytes += size

    # ---- operands ----

    def name(self, operand):
        name = operand.lstrip('%')
        if name not in self.registers:
            raise Unknown('register ' + operand)
        return 'r_' + identifier(name)

    def address_of(self, name):
        if name in self.shared:
            return f'{self.shared[name]}ull'
        if name in self.params:
            return f'(std::uint64_t)(p + {self.params[name]})'
        if name in self.arrays:
            return f'(std::uint64_t)r_{identifier(name)}'
        if name in self.module.globals:
            return f'(std::uint64_t)g_{identifier(name)}'
        return None

    def read(self, operand, t):
        """An expression of PTX type t."""
        if operand.startswith('!'):
            return '!' + self.read(operand[1:], t)
        if operand in SPECIAL:
            return SPECIAL[operand]
        m = re.fullmatch(r'0[fF]([0-9a-fA-F]{8})|0[dD]([0-9a-fA-F]{16})', operand)
        if m:
            return f'B32{{0x{m[1]}u}}.f' if m[1] else f'B64{{0x{m[2]}ull}}.f'
        m = re.fullmatch(r'(-?)(0[xX][0-9a-fA-F]+|\d+)U?', operand)
        if m:
            return f'({TYPES[t]})({m[1]}{m[2]}{"ull" if int(m[2], 0) >= 2**63 else "ll"})'
        m = re.fullmatch(r'([\w$]+)\+(-?\d+)', operand)
        if m and self.address_of(m[1]):
            return f'({self.address_of(m[1])} + {m[2]})'
        if self.address_of(operand):
            return self.address_of(operand)
        name = self.name(operand)
        width = self.registers[operand.lstrip('%')]
        if width == 'pred' or t == 'pred':
            return name
        if width == SIZES[t]:
            return f'{name}.{t[0] if t[0] in "sf" and t[:3] != "f16" else "u"}'
        return f'({TYPES[t]}){name}.u'

    def write(self, operand, t, value):
        if operand == '_':
            return f'(void)({value});'
        name, width = self.name(operand), self.registers[operand.lstrip('%')]
        if width == 'pred':
            return f'{name} = {value};'
        if width == SIZES[t]:
            return f'{name}.{t[0] if t[0] in "sf" and t[:3] != "f16" else "u"} = {value};'
        return f'{name}.{"s" if t[0] == "s" else "u"} = ({TYPES[t]})({value});'

    def pointer(self, operand, space, size, access):
        """A checked host address of `size` bytes; access: read, write or atomic."""
        m = re.fullmatch(r'\[\s*([\w$%.]+)\s*(?:\+\s*(-?\w+))?\s*\]', operand)
        if not m:
            raise Unknown('address ' + operand)
        base, offset = m[1], int(m[2] or '0', 0)
        address = self.address_of(base) or self.read(base, 'u64')
        if space == 'param' or base in self.params or base in self.arrays:
            return f'({address} + {offset})'
        return f'{"shared_at" if space == "shared" else "at"}<{size}, Access::{access}>(t, {address} + {offset})'

    # ---- statements ----

    def translate(self, body):
        at = 0
        for m in re.finditer(r'(?:^|[;{}\s])([\w$]+):(?!:)', body):
            self.labels.add(m[1])
        seen = set()
        while at < len(body):
            if body[at] in ' \t\r\n;':
                at += 1
                continue
            if body[at] in '{}':
                self.lines.append('{' if body[at] == '{' else ';}')
                at += 1
                continue
            m = re.compile(r'([\w$]+):(?!:)').match(body, at)
            if m:
                seen.add(m[1])
                self.lines.append(f'L{identifier(m[1])}:;')
                at = m.end()
                continue
            end = body.index('\n' if re.compile(r'\.(loc|file)\s').match(body, at) else ';', at)
            statement = ' '.join(body[at:end].split())
            at = end + 1
            try:
                self.statement(statement, seen)
            except (Unknown, KeyError, IndexError, StopIteration) as error:
                raise Unknown(f'{statement} ({error})') from error

    def statement(self, s, seen):
        if re.match(r'\.(pragma|loc|file)\b', s):
            return
        m = re.fullmatch(r'\.reg \.(\w+) (.*)', s)
        if m:
            width = 'pred' if m[1] == 'pred' else SIZES[m[1]]
            names = []
            for d in split(m[2]):
                many = re.fullmatch(r'%?([\w$]+)<(\d+)>', d)
                names += [f'{many[1]}{i}' for i in range(int(many[2]))] if many else [d.lstrip('%')]
            self.registers.update(dict.fromkeys(names, width))
            kind = 'bool' if width == 'pred' else f'B{8 * max(width, 2)}'
            if width == 1:
                self.registers.update(dict.fromkeys(names, 2))
            self.lines.append(f'{kind} {", ".join("r_" + identifier(n) for n in names)};')
            return
        m = re.fullmatch(r'\.(shared|local|param) (?:\.align (\d+) )?\.(\w+) ([\w$%]+)(?:\[(\d+)\])?', s)
        if m:
            size, align = SIZES[m[3]] * int(m[5] or 1), int(m[2] or SIZES[m[3]])
            if m[1] == 'shared':
                self.share(m[4], align, size)
            else:
                self.arrays.add(m[4])
                self.lines.append(f'alignas({max(align, 8)}) unsigned char r_{identifier(m[4])}[{size}];')
            return
        condition = ''
        m = re.fullmatch(r'@(!?)(%?[\w$]+) (.*)', s)
        if m:
            condition, s = f'if ({m[1]}{self.name(m[2])}) ', m[3]
        m = re.fullmatch(r'call(?:\.uni)? (?:\(([^)]*)\), ?)?([\w$]+)(?:, ?\(([^)]*)\))?', s)
        if m:
            arguments = [f'r_{identifier(x)}' for group in (m[1], m[3]) for x in split(group or '')]
            self.lines.append(f'{condition}f_{identifier(m[2])}({", ".join(["t"] + arguments)});')
            return
        op, _, rest = s.partition(' ')
        operands = split(rest)
        if op.split('.')[0] == 'bra':
            loop = '++t.steps; ' if operands[0] in seen else ''  # back to an earlier place
            self.lines.append(f'{condition}{{ {loop}goto L{identifier(operands[0])}; }}')
            return
        self.module.sites += 1
        self.lines.append(f'{condition}{{ {self.instruction(op, operands)} }}')

    def instruction(self, op, o):
        name, *mods = op.replace('::', '_').split('.')
        types = [m for m in mods if m in SIZES or m == 'pred']
        t = types[-1] if types else 'b32'
        read, write, site = self.read, self.write, self.module.sites
        c = TYPES[t]
        is_float = t in ('f32', 'f64')
        if name in ('ret', 'exit'):
            return 'return;'
        if name == 'trap':
            return 'fail(t, "the kernel calls trap");'
        if name in ('membar', 'fence', 'nanosleep', 'prefetch', 'prefetchu', 'discard', 'applypriority'):
            return ''
        if name in ('bar', 'barrier', 'shfl', 'vote'):
            self.collective = True
            return self.together(name, mods, o, site)
        space = next((m for m in mods if m in ('param', 'shared', 'global', 'local', 'const')), '')
        if name in ('ld', 'ldu', 'st'):
            count = 2 if 'v2' in mods else 4 if 'v4' in mods else 1
            memory = 'std::uint%d_t' % (8 * SIZES[t]) if t[0] == 'b' or t == 'f16' else c
            value, place = (o[0], o[1]) if name != 'st' else (o[1], o[0])
            values = split(value[1:-1]) if count > 1 else [value]
            ordered = any(m in mods for m in ('volatile', 'relaxed', 'acquire', 'release'))
            access = 'atomic' if ordered else 'write' if name == 'st' else 'read'
            start = f'auto* a = ({memory}*){self.pointer(place, space, count * SIZES[t], access)};'
            if name == 'st':
                return start + ' '.join(f' a[{i}] = {read(v, t)};' for i, v in enumerate(values))
            if count > 1:  # a register of the address may be among the results
                start += f' const {memory} v[] = {{{", ".join(f"a[{i}]" for i in range(count))}}};'
                return start + ' '.join(write(v, t, f'v[{i}]') for i, v in enumerate(values))
            return start + ' ' + write(value, t, 'a[0]')
        if name in ('atom', 'red'):
            kind = next(m for m in mods if m in ('add', 'cas', 'exch', 'min', 'max', 'and', 'or', 'xor'))
            o = ['_'] + o if name == 'red' else o
            b = read(o[2], t)
            new = {'add': f'old + {b}', 'exch': b, 'min': f'std::min<{c}>(old, {b})', 'max': f'std::max<{c}>(old, {b})',
                   'and': f'old & {b}', 'or': f'old | {b}', 'xor': f'old ^ {b}'}.get(kind)
            if kind == 'cas':
                new = f'old == {b} ? {read(o[3], t)} : old'
            return (f'auto* a = ({c}*){self.pointer(o[1], space, SIZES[t], "atomic")}; '
                    f'const {c} before = update(a, [&]({c} old) {{ return ({c})({new}); }}); {write(o[0], t, "before")}')
        if name == 'cvta':
            shift = f' {"-" if "to" in mods else "+"} (std::uint64_t)t.shared' if space == 'shared' else ''
            return write(o[0], 'u64', read(o[1], 'u64') + shift)
        if name == 'mov':
            if o[0].startswith('{'):
                parts = split(o[0][1:-1])
                bits = 8 * SIZES[t] // len(parts)
                return f'const auto v = {read(o[1], "b%d" % (8 * SIZES[t]))}; ' + ' '.join(
                    write(p, f'u{bits}', f'(std::uint{bits}_t)(v >> {bits * i})') for i, p in enumerate(parts))
            if o[1].startswith('{'):
                parts = split(o[1][1:-1])
                bits, whole = 8 * SIZES[t] // len(parts), f'std::uint{8 * SIZES[t]}_t'
                return write(o[0], f'b{8 * SIZES[t]}', ' | '.join(
                    f'({whole})({whole}){read(p, "u%d" % bits)} << {bits * i}' for i, p in enumerate(parts)))
            return write(o[0], t, read(o[1], t))
        if name == 'setp':
            return self.compare(mods, o, t, is_float)
        if name == 'selp':
            return write(o[0], t, f'{read(o[3], "pred")} ? {read(o[1], t)} : {read(o[2], t)}')
        if name == 'cvt':
            return self.convert(types, mods, o)
        if t in ('f16', 'bf16', 'f16x2', 'bf16x2'):
            raise Unknown('arithmetic of 16 bits')
        if is_float:
            return write(o[0], t, self.of_floats(name, mods, t, [read(x, t) for x in o[1:]]))
        return self.of_integers(name, mods, t, o)

    def together(self, name, mods, o, site):
        """Instructions of several threads."""
        read, write = self.read, self.write
        if name == 'shfl':
            results = o[0].split('|')
            code = (f'bool in; const std::uint32_t v = shuffle(t, {site}, Shuffle::{mods[1]}, '
                    f'{", ".join(read(x, "u32") for x in o[1:5])}, in); {write(results[0], "b32", "v")}')
            return code + (' ' + write(results[1], 'pred', 'in') if len(results) > 1 else '')
        if name == 'vote':
            votes = f'ballot(t, {site}, {read(o[1], "pred")}, {read(o[2], "u32")})'
            if 'ballot' in mods:
                return write(o[0], 'b32', votes)
            if 'any' in mods:
                return write(o[0], 'pred', votes + ' != 0')
            if 'all' in mods:
                return write(o[0], 'pred', f'{votes} == {read(o[2], "u32")}')
        if mods[0] == 'warp':
            return f'ballot(t, {site}, false, {read(o[0], "u32")});'
        if 'sync' in mods and o == ['0']:
            return f'barrier(t, {site}, false);'
        if 'red' in mods and 'pred' in mods and len(o) == 3:
            return write(o[0], 'pred', f'barrier(t, {site}, {read(o[2], "pred")}).{"all" if "and" in mods else "any"}')
        raise Unknown('barrier')

    def compare(self, mods, o, t, is_float):
        a, b = self.read(o[1], t), self.read(o[2], t)
        k = mods[0]
        signs = {'eq': '==', 'ne': '!=', 'lt': '<', 'le': '<=', 'gt': '>', 'ge': '>=', 'lo': '<', 'ls': '<=', 'hi': '>', 'hs': '>='}
        opposite = {'equ': f'!({a} < {b} || {a} > {b})', 'neu': f'{a} != {b}', 'ltu': f'!({a} >= {b})', 'leu': f'!({a} > {b})',
                    'gtu': f'!({a} <= {b})', 'geu': f'!({a} < {b})', 'ne': f'({a} < {b} || {a} > {b})',
                    'num': f'({a} == {a} && {b} == {b})', 'nan': f'({a} != {a} || {b} != {b})'}  # with NaN: true, except ne and num
        value = opposite[k] if is_float and k in opposite else f'{a} {signs[k]} {b}'
        also = next((m for m in mods[1:] if m in ('and', 'or', 'xor')), None)
        join = (lambda e: f'({e}) {dict([("and", "&&"), ("or", "||"), ("xor", "!=")])[also]} {self.read(o[3], "pred")}') if also else str
        results = o[0].split('|')
        code = f'const bool e = {value}; ' + self.write(results[0], 'pred', join('e'))
        return code + (' ' + self.write(results[1], 'pred', join('!e')) if len(results) > 1 else '')

    def convert(self, types, mods, o):
        to, of = types[0], types[-1]
        if to in ('bf16x2', 'f16x2'):
            f = 'to_' + to[:-2]
            return self.write(o[0], to, f'(std::uint32_t){f}({self.read(o[1], "f32")}) << 16 | {f}({self.read(o[2], "f32")})')
        x = self.read(o[1], of)
        if of in ('f16', 'bf16'):
            x = f'of_{of}({x})'
        if 'ftz' in mods and of == 'f32':
            x = f'flushed({x})'
        for m, f in (('rni', 'nearbyint'), ('rzi', 'trunc'), ('rmi', 'floor'), ('rpi', 'ceil')):
            if m in mods:
                x = f'std::{f}({x})'
        if to in ('f16', 'bf16'):
            return self.write(o[0], to, f'to_{to}({x})')
        if to in ('f32', 'f64'):
            if any(m in mods for m in ROUNDING):
                raise Unknown('rounding')
            x = f'({TYPES[to]})({x})'
            return self.write(o[0], to, f'saturated({x})' if 'sat' in mods else x)
        if of in ('f16', 'bf16', 'f32', 'f64'):
            return self.write(o[0], to, f'to_integer<{TYPES[to]}>({x})')
        if 'sat' in mods:
            raise Unknown('saturation')
        return self.write(o[0], to, f'({TYPES[to]})({x})')

    def of_floats(self, name, mods, t, x):
        c = TYPES[t]
        if name == 'copysign':
            return f'std::copysign({x[1]}, {x[0]})'
        form = {'add': '{} + {}', 'sub': '{} - {}', 'mul': '{} * {}', 'fma': 'std::fma({}, {}, {})', 'mad': 'std::fma({}, {}, {})',
                'div': '{} / {}', 'rcp': f'({c})1 / {{}}', 'sqrt': 'std::sqrt({})', 'rsqrt': f'({c})1 / std::sqrt({{}})',
                'neg': '-{}', 'abs': 'std::fabs({})', 'min': 'std::fmin({}, {})', 'max': 'std::fmax({}, {})',
                'ex2': 'std::exp2({})', 'lg2': 'std::log2({})', 'sin': 'std::sin({})', 'cos': 'std::cos({})',
                'tanh': 'std::tanh({})'}[name]
        direction = next((m for m in mods if m in ROUNDING), None)
        if direction:  # volatile: the compiler must not compute it in advance
            copies = ''.join(f'volatile {c} x{i} = {v}; ' for i, v in enumerate(x))
            e = f'rounded<{c}>({ROUNDING[direction]}, [&] {{ {copies}return {form.format(*[f"x{i}" for i in range(len(x))])}; }})'
        else:
            e = form.format(*x)
        if 'sat' in mods:
            e = f'saturated({e})'
        return f'flushed({e})' if 'ftz' in mods else e

    def of_integers(self, name, mods, t, o):
        read, write, c = self.read, self.write, TYPES[t]
        if 'cc' in mods or name in ('addc', 'subc', 'madc'):  # with a carry
            if t not in ('u32', 'b32', 's32'):
                raise Unknown('carry')
            a = [f'(std::uint64_t){read(x, "u32")}' for x in o[1:]]
            if name in ('mad', 'madc'):
                product = f'{a[0]} * {a[1]}'
                e = f'({product} {">> 32" if "hi" in mods else "& 0xffffffffu"}) + {a[2]}'
            else:
                e = f'{a[0]} {"-" if name[:3] == "sub" else "+"} {a[1]}'
            if name[-1] == 'c' and name != 'sub':
                e += f' {"-" if name[:3] == "sub" else "+"} t.carry'
            keep = ' t.carry = w >> 32 & 1;' if 'cc' in mods else ''
            return f'const std::uint64_t w = {e};{keep} {write(o[0], "u32", "(std::uint32_t)w")}'
        if name in ('shl', 'shr'):
            n = read(o[2], 'u32')
            if re.fullmatch(r'\d+', o[2]) and int(o[2]) < 8 * SIZES[t]:
                return write(o[0], t, f'({c})({read(o[1], t)} {"<<" if name == "shl" else ">>"} {o[2]})')
            return write(o[0], t, f'{name}<{c}>({read(o[1], t)}, {n})')
        x = [read(v, t) for v in o[1:]]
        signs = {'add': '+', 'sub': '-', 'and': '&', 'or': '|', 'xor': '^'}
        if t == 'pred':
            if name == 'not':
                return write(o[0], t, '!' + x[0])
            return write(o[0], t, f'{x[0]} {dict([("and", "&&"), ("or", "||"), ("xor", "!=")])[name]} {x[1]}')
        if name in signs:
            return write(o[0], t, f'({c})({x[0]} {signs[name]} {x[1]})')
        if name in ('mul', 'mad'):
            wide = TYPES[t[0] + str(16 * SIZES[t])] if SIZES[t] < 8 else '__int128' if t[0] == 's' else 'unsigned __int128'
            result = t
            if 'wide' in mods:
                result = t[0] + str(16 * SIZES[t])
                e = f'({wide}){x[0]} * ({wide}){x[1]}'
            elif 'hi' in mods:
                e = f'({c})(({wide}){x[0]} * ({wide}){x[1]} >> {8 * SIZES[t]})'
            else:
                e = f'{x[0]} * {x[1]}'
            if name == 'mad':
                e += f' + {read(o[3], result)}'
            return write(o[0], result, f'({TYPES[result]})({e})')
        if name in ('div', 'rem'):
            return write(o[0], t, f'{name}<{c}>(t, {x[0]}, {x[1]})')
        simple = {'not': '~{0}', 'neg': '-{0}', 'abs': '{0} < 0 ? -{0} : {0}', 'min': '{0} < {1} ? {0} : {1}',
                  'max': '{0} > {1} ? {0} : {1}', 'prmt': 'prmt({0}, {1}, {2})', 'bmsk': 'bmsk({0}, {1})'}
        if name in simple:
            return write(o[0], t, f'({c})({simple[name].format(*x)})')
        if name in ('clz', 'popc', 'brev', 'ffs'):
            f = {'clz': 'std::countl_zero', 'popc': 'std::popcount', 'brev': 'brev'}[name]
            return write(o[0], t if name == 'brev' else 'u32', f'{f}({read(o[1], "u%d" % (8 * SIZES[t]))})')
        if name == 'bfi':
            return write(o[0], t, f'bfi<{c}>({x[0]}, {x[1]}, {read(o[3], "u32")}, {read(o[4], "u32")})')
        if name == 'bfe':
            return write(o[0], t, f'bfe<{c}>({x[0]}, {read(o[2], "u32")}, {read(o[3], "u32")})')
        if name == 'lop3':
            return write(o[0], t, f'lop3({x[0]}, {x[1]}, {x[2]}, {o[4]})')
        raise Unknown('instruction')


class Module:
    """Everything in one object. Kernels are dealt out to several files, so that several cores compile them."""

    def __init__(self, text):
        self.sites, self.globals, self.shared = 0, set(), []
        self.common, self.kernels = [], []  # C++ that each file has; (C++, its row of the table)
        text = re.sub(r'//[^\n]*', '', text)
        head = re.compile(r'(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b([^{;]*)([{;])'
                          r'|(?:\.(?:visible|weak|extern)\s+)*\.(global|const|shared)\s+([^;]*);')
        at = 0
        while m := head.search(text, at):
            at = m.end()
            if m[4]:
                self.variable(m[4], ' '.join(m[5].split()))
            elif m[3] == '{':
                depth = 1
                while depth:
                    depth += {'{': 1, '}': -1}.get(text[at], 0)
                    at += 1
                self.function(m[1], ' '.join(m[2].split()), text[m.end():at - 1])

    def variable(self, space, text):
        m = re.fullmatch(r'(?:\.align (\d+) )?\.(\w+) ([\w$]+)(?:\[(\d*)\])?(?: = (.*))?', text)
        if not m or re.search(r'[A-Za-z_]{2}', m[5] or ''):
            raise Unknown('variable ' + text[:100])
        if space == 'shared':
            self.shared.append((m[3], int(m[1] or SIZES[m[2]]), SIZES[m[2]] * int(m[4] or (0 if m[4] == '' else 1))))
            return
        self.globals.add(m[3])
        c = f'std::uint{8 * SIZES[m[2]]}_t'
        values = re.sub(r'-\d+', lambda q: f'({c}){q[0]}', (m[5] or '').strip('{}'))
        self.common.append(f'[[maybe_unused]] alignas({m[1] or 16}) static {c} g_{identifier(m[3])}[{m[4] or 1}] = {{{values}}};')

    def function(self, kind, head, body):
        m = re.fullmatch(r'(?:\(([^)]*)\) ?)?([\w$]+) ?(?:\((.*?)\))?([^()]*)', head)
        name, params = m[2], parameters(m[3] or '')
        try:
            if kind == 'func':
                result = parameters(m[1] or '') + params
                f = Function(self, {})
                f.arrays.update(n for n, _, _ in result)
                f.translate(body)
                arguments = ''.join(f', unsigned char* r_{identifier(n)}' for n, _, _ in result)
                self.common.append('\n'.join([f'[[maybe_unused]] static void f_{identifier(name)}(Thread& t{arguments}) {{', *f.lines, '}']))
                return
            offset, offsets = 0, []
            for _, size, align in params:
                offset = -(-offset // align) * align
                offsets.append(offset)
                offset += size
            f = Function(self, {p[0]: o for p, o in zip(params, offsets)})
            for shared in self.shared:
                if re.search(rf'(?<![\w$]){re.escape(shared[0])}(?![\w$])', body):
                    f.share(*shared)
            f.translate(body)
        except Unknown as error:
            raise Unknown(f'{name}: {error}') from error
        bounds = re.search(r'\.maxntid (\d+)', m[4])
        k = len(self.kernels)
        code = '\n'.join([f'static void k{k}(Thread& t, unsigned char* p) {{', '(void)t, (void)p;', *f.lines, '}'])
        sizes = ', '.join(f'{{{o}, {p[1]}}}' for o, p in zip(offsets, params))
        row = (f'{{"{name}", k{k}, {{{sizes}}}, {offset}, {f.shared_bytes}, {bounds[1] if bounds else 1024}, '
               f'{"true" if f.collective else "false"}}},')
        self.kernels.append((code, row))

    def write(self, prefix, count):
        shares = [[] for _ in range(count)]
        for kernel in sorted(self.kernels, key=lambda k: -len(k[0])):
            min(shares, key=lambda s: sum(len(k[0]) for k in s)).append(kernel)
        for i, share in enumerate(shares):
            with open(f'{prefix}.{i}.cpp', 'w') as out:
                out.write('#include "ptx/ptx.h"\nusing namespace rondo::ptx;\n')
                if share:
                    out.write('\n'.join(self.common + [k[0] for k in share]))
                    out.write('\nstatic const Kernel kernels[] = {\n' + '\n'.join(k[1] for k in share) + '\n};\n')
                    out.write('static const Registered registered(kernels);\n')


def main():
    try:
        with open(sys.argv[1], 'rb') as file:
            Module(ptx_in(file.read())).write(sys.argv[2], int(sys.argv[3]))
    except Unknown as error:
        sys.exit(f'ptx2cpp.py: {sys.argv[1]}: cannot translate {error}')


if __name__ == "__main__":
    main()
