#!/usr/bin/env python3
"""Compiles the PTX of the libraries to machine code and checks what ptxas says of each kernel.

check_ptxas.py compile PTXAS OBJECT LOG    compiles the PTX of an object and writes what ptxas says; part of the build
check_ptxas.py check OBJECT LOG …          fails if a kernel keeps values in memory instead of registers (a spill), needs more registers
                                           or shared memory than two blocks on a multiprocessor have, or does not move 16 bytes at a
                                           time although it should

`check` prints the kernels with the most registers. The machine code itself is not run.
"""
import os
import re
import subprocess
import sys

from ptx2cpp import ptx_in

# Kernels that may spill, and why. A spill of a few bytes around the call of a 64-bit division costs little; it matters in a hot loop.
MAY_SPILL = {
    r'StridedMap<': 'one kernel for all ops and layouts, chosen by a switch',
    r'(CrossEntropy|SoftmaxGradient|FindExtreme)<': '64-bit divisions for strided rows, before and after the loop',
    r'<(JoinSplits<.*, long>|AveragePoolBackward<double, 2>)': 'types which training does not use',
    r'^cub::': "NVIDIA's own",
}
# Kernels that must read and write 16 bytes at a time: how many of them there are, and how many such loads and stores each has, at least.
# An operand that may be f32, bf16 or f16 has four: two, one and one.
WIDE = {
    r'PackedMap<1ul': (25, 4, 4),
    r'PackedMap<2ul': (5, 8, 4),
    r'<(Apply|ApplyGradient)<(Half|BFloat16|float), [48]>': (6, 1, 1),
    r'<(SoftmaxLine|SoftmaxGradient)<float, (Half|BFloat16|float)>': (12, 1, 1),
    r'<(RowNorm|RowNormGradient)<float, (Half|BFloat16|float)>': (12, 1, 1),
    r'<(GroupNorm|GroupNormGradient)<float>': (4, 1, 1),
    r'<(MaxPool|MaxPoolBackward|AveragePool|AveragePoolBackward)<(Half|BFloat16|float), [48]>': (12, 1, 1),
    r'<SgdStep<float>': (1, 12, 8),
    r'<AdamStep<float>': (1, 20, 16),
    r'<Unscale<float>': (1, 4, 4),
    r'<Reduce(Row|Column)<ReductionRule<': (3, 5, 0),
    r'<SumBlock<[48],': (6, 6, 0),
    r'<FillWords<': (4, 0, 1),
    r'<DenseWhere<unsigned (short|int|long)>': (3, 2, 1),
    r'<RotateEight>': (1, 16, 8),
    r'<DenseUniform>': (1, 0, 8),
}
# Threads of a block where a kernel may be launched with more; launch.cuh starts one of 1,024 only for rows of over 8,192 elements.
USUAL_THREADS = {'rows_kernel<': 256}
REGISTERS, SHARED = 65536, 233472  # of a multiprocessor of an H100
RESERVED = 1024  # bytes of shared memory of each block that the system uses


def wide_accesses(ptx, kind):
    return len(re.findall(kind + r'\.global(?:\.\w+)*\.(?:v4\.\w32|v2\.\w64)\b', ptx))


def ptx_of(path):
    with open(path, 'rb') as file:
        ptx = ptx_in(file.read())
    if not ptx:
        sys.exit(f'{path} has no PTX')
    return ptx


def compile_object(ptxas, path, log):
    ptx = ptx_of(path)
    architecture = re.search(r'^\.target (sm_\d+)', ptx, re.M)[1]
    run = subprocess.run([ptxas, '-v', '-arch=' + architecture, '-o', os.devnull, '-'], input=ptx, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f'{path}: {run.stderr}')
    with open(log, 'w') as file:
        file.write(run.stderr)


def compiled(path, log):
    """(mangled name, registers, spilled bytes, shared memory, threads, wide loads, wide stores) for each kernel of an object."""
    ptx = ptx_of(path)
    if not os.path.exists(log):
        sys.exit(f'{log} is missing: build the target ptxas_logs')
    with open(log) as file:
        said = file.read()
    bodies = {m[1]: m[0] for m in re.finditer(r'\.entry (\S+?)\(.*?^\}', ptx, re.S | re.M)}
    kernels = []
    for m in re.finditer(r"Compiling entry function '(\S+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?"
                         r'Used (\d+) registers(.*?)$', said, re.S | re.M):
        shared = re.search(r'(\d+) bytes smem', m[5])
        threads = re.search(r'\.maxntid (\d+)', bodies[m[1]])
        kernels.append((m[1], int(m[4]), int(m[2]) + int(m[3]), int(shared[1]) if shared else 0, int(threads[1]) if threads else 256,
                        wide_accesses(bodies[m[1]], 'ld'), wide_accesses(bodies[m[1]], 'st')))
    return kernels


def check(objects, logs):
    kernels = [kernel for path, log in zip(objects, logs) for kernel in compiled(path, log)]
    names = subprocess.run(['c++filt'], input='\n'.join(k[0] for k in kernels), capture_output=True, text=True, check=True).stdout.split('\n')
    names = [re.sub(r'\(anonymous namespace\)::|rondo::(cuda::)?(detail::)?|^void ', '', name) for name in names]
    faults, wide_found = [], dict.fromkeys(WIDE, 0)
    for (_, registers, spilled, shared, threads, loads, stores), name in zip(kernels, names):
        threads = next((usual for kernel, usual in USUAL_THREADS.items() if name.startswith(kernel)), threads)
        per_thread = -(-registers // 8) * 8  # allocated in eights
        short = name.split('(')[0] if '(long' in name else name
        if spilled and not any(re.search(known, name) for known in MAY_SPILL):
            faults.append(f'{spilled} bytes are spilled: {short}')
        if not name.startswith('cub::') and (2 * threads * per_thread > REGISTERS or 2 * (shared + RESERVED) > SHARED):
            faults.append(f'{registers} registers of {threads} threads, {shared} bytes of shared memory: two blocks do not fit: {short}')
        for pattern, (_, least_loads, least_stores) in WIDE.items():
            if re.search(pattern, name):
                wide_found[pattern] += 1
                if loads < least_loads or stores < least_stores:
                    faults.append(f'{loads} loads and {stores} stores of 16 bytes, not {least_loads} and {least_stores}: {short}')
    faults += [f'{wide_found[pattern]} kernels match {pattern}, not {least} or more' for pattern, (least, _, _) in WIDE.items()
               if wide_found[pattern] < least]
    for registers, name in sorted(((k[1], name) for k, name in zip(kernels, names)), reverse=True)[:10]:
        print(f'{registers:5d} registers  {name[:110]}')
    print('\n'.join(faults))
    print(f'{len(kernels)} kernels; {len(faults)} faults')
    sys.exit(1 if faults or not kernels else 0)


def main():
    if sys.argv[1] == 'compile':
        compile_object(*sys.argv[2:])
    else:
        check(sys.argv[2::2], sys.argv[3::2])


main()
