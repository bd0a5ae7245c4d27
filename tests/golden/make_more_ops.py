"""Goldens for tests/autograd/composed_elementwise_test.cpp, composed_shape_test.cpp and statistics_test.cpp:
python3 tests/golden/make_more_ops.py (needs torch). The cases are written by golden.case, except those of integers,
which are NAME.0, NAME.1, … and NAME.y."""

import torch

import golden

torch.manual_seed(17)
out = {}
f64 = torch.float64
nan, inf = float("nan"), float("inf")


def case(name, f, *shapes, grid=8, low=-2.0, high=2.0):
    golden.case(out, name, f, *(golden.drawn(s, low, high, grid=grid) for s in shapes))


def given(name, f, *values):
    golden.case(out, name, f, *(torch.tensor(v, dtype=f64) for v in values))


def integers(name, f, *inputs):
    for i, x in enumerate(inputs):
        out[f"{name}.{i}"] = x
    out[f"{name}.y"] = f(*inputs)


# Element by element.
given("erfinv", torch.erfinv, [-0.999999, -0.9, -0.5, -1e-9, 0, 0.1, 0.3, 0.5, 0.7, 0.99, 1 - 2**-40])
places = [-20.25, -3.5, -2.0001, -0.5, -1e-5, 1e-5, 0.3, 1, 1.4616, 2, 5.5, 9.99, 10, 171.5, 1e6]
given("lgamma", torch.lgamma, places)
given("digamma", torch.digamma, places)
for n in (0, 1, 2, 5):
    given(f"polygamma.{n}", lambda x, n=n: torch.polygamma(n, x), [x for x in places if -4 < x and abs(x) > 0.1])
given("round.2", lambda x: torch.round(x, decimals=2), [1.2345, -1.235, 2.5, 0.004])
given("round.-1", lambda x: torch.round(x, decimals=-1), [12.0, -17, 25, 4])
case("frac", torch.frac, (2, 5))
given("logit", torch.logit, [0.1, 0.5, 0.875])
given("logit.eps", lambda x: torch.logit(x, 0.25), [-1.0, 0.1, 0.5, 0.875, 2])
given("sinc", torch.sinc, [0.0, 0.25, -1.5, 2])
case("deg2rad", torch.deg2rad, (4,))
case("rad2deg", torch.rad2deg, (4,))
given("fmod", torch.fmod, [-7.5, 7.5, -7.5, 7.5, 1], [2.0, 2, -2, -2, 0.3])
for mode in ("floor", "trunc"):
    golden.case(out, f"div.{mode}", lambda a, b, m=mode: torch.div(a, b, rounding_mode=m).detach() + 0 * (a + b),
                torch.tensor([-7.5, 7.5, -7.5, 7.5], dtype=f64), torch.tensor([2.0, 2, -2, -2], dtype=f64))
    integers(f"div.whole.{mode}", lambda a, b, m=mode: torch.div(a, b, rounding_mode=m),
             torch.tensor([-7, 7, -7, 7, -8]), torch.tensor([2, 2, -2, -2, 2]))
case("addcmul", lambda x, a, b: torch.addcmul(x, a, b, value=0.5), (2, 3), (2, 3), (3,))
case("addcdiv", lambda x, a, b: torch.addcdiv(x, a, b, value=-2), (2, 3), (2, 3), (3,), low=0.5)
given("copysign", torch.copysign, [1.0, -2, 0, 3, -4], [-1.0, 1, -1, -0.0, 0.0])
integers("heaviside", torch.heaviside, torch.tensor([-1.0, 0, 2, 0, -inf], dtype=f64),
         torch.tensor([0.5, 0.25, 3, -1, 7], dtype=f64))
given("xlogy", torch.xlogy, [0.0, 0, 2, -1, 0.5], [2.0, 1, 3, 0.25, 1])
out["xlogy.edges.0"] = torch.tensor([0.0, 0, 0, 0, 2], dtype=f64)
out["xlogy.edges.1"] = torch.tensor([0.0, -1, inf, nan, 0], dtype=f64)
out["xlogy.edges.y"] = torch.xlogy(out["xlogy.edges.0"], out["xlogy.edges.1"])
given("clamp", lambda x, a, b: torch.clamp(x, a, b), [-2.0, 0, 1, 3, 0.5], [-1.0, 0, 2, 0, 0], [1.0, 1, 1, 2, 0.5])
case("max", lambda a, b: torch.max(a, b), (2, 3), (3,))
case("min", lambda a, b: torch.min(a, b), (2, 3), (3,))
wide = torch.tensor([5, -3, 0, 2**40 + 1, -(2**63), 77])
other = torch.tensor([3, 6, -1, 255, 1, -77])
small = torch.tensor([200, 7, 255, 0], dtype=torch.uint8)
for name in ("and", "or", "xor"):
    integers(f"bitwise_{name}", getattr(torch, f"bitwise_{name}"), wide, other)
    integers(f"bitwise_{name}.u8", lambda a, f=getattr(torch, f"bitwise_{name}"): f(a, 29), small)
    integers(f"bitwise_{name}.bool", getattr(torch, f"bitwise_{name}"), torch.tensor([True, True, False, False]),
             torch.tensor([True, False, True, False]))
integers("bitwise_not", torch.bitwise_not, wide)
integers("bitwise_not.u8", torch.bitwise_not, small)
shifts = torch.tensor([1, 2, 70, 23, 63, -1])
for name in ("left", "right"):
    f = getattr(torch, f"bitwise_{name}_shift")
    integers(f"bitwise_{name}_shift", f, wide, shifts)
    integers(f"bitwise_{name}_shift.u8", lambda a, f=f: f(a, 3), small)
    integers(f"bitwise_{name}_shift.i32", lambda a, f=f: f(a, 30), torch.tensor([-5, 5, 1, 1 << 30], dtype=torch.int32))
integers("signbit", torch.signbit, torch.tensor([-1.0, 1, 0.0, -0.0, -inf, inf], dtype=f64))

# Shapes.
case("split.sizes", lambda x: torch.cat(x.split([1, 3, 0, 2], 1)[::-1], 1), (2, 6))
case("tensor_split", lambda x: torch.cat(torch.tensor_split(x, 4, 1)[::-1], 1), (2, 6))
case("tensor_split.indices", lambda x: torch.cat(torch.tensor_split(x, (1, 4, 9), 1)[::-1], 1), (2, 6))
case("unfold.method", lambda x: x.unfold(1, 3, 2), (2, 8, 2))
case("unfold.last", lambda x: x.unfold(-1, 2, 1), (2, 3))
for name in ("hstack", "vstack", "dstack", "column_stack"):
    case(f"{name}.vectors", lambda a, b, f=getattr(torch, name): f((a, b)), (3,), (3,))
    case(f"{name}.matrices", lambda a, b, f=getattr(torch, name): f((a, b)), (2, 3), (2, 3))
case("hstack.numbers", lambda a, b: torch.hstack((a, b)), (), ())
case("column_stack.mixed", lambda a, b: torch.column_stack((a, b)), (2,), (2, 3))
for name in ("fliplr", "flipud"):
    case(name, getattr(torch, name), (2, 3))
for k in (-1, 0, 1, 2, 3):
    case(f"rot90.{k}", lambda x, k=k: torch.rot90(x, k), (2, 3))
case("rot90.dims", lambda x: torch.rot90(x, 1, (2, 0)), (2, 1, 3))
case("block_diag", lambda a, b, c: torch.block_diag(a, b, c), (2, 3), (2,), ())
case("cartesian_prod", lambda a, b, c: torch.cartesian_prod(a, b, c), (2,), (3,), (2,))
for n in (1, 2, 3):
    case(f"atleast_{n}d", getattr(torch, f"atleast_{n}d"), (2,))
    case(f"atleast_{n}d.number", getattr(torch, f"atleast_{n}d"), ())
case("inner", torch.inner, (2, 3), (4, 3))
case("cross", lambda a, b: torch.linalg.cross(a, b), (2, 3), (1, 3))
case("cross.first", lambda a, b: torch.cross(a, b, dim=0), (3, 2), (3, 2))
case("kron", torch.kron, (2, 3), (2, 2))
case("kron.ranks", torch.kron, (2, 1, 2), (3,))
integers("vander", torch.vander, torch.tensor([0.5, -2, 3], dtype=f64))  # it has no gradient
integers("vander.increasing", lambda x: torch.vander(x, 2, increasing=True), torch.tensor([4, -1, 0]))
mask = torch.tensor([[True, False, True], [False, True, True]])
case("masked_scatter", lambda x, y: x.masked_scatter(mask, y), (2, 3), (5,))
case("masked_scatter.broadcast", lambda x, y: x.masked_scatter(mask[0], y), (2, 3), (2, 2))
case("take", lambda x: torch.take(x, torch.tensor([[0, 5], [-1, 2]])), (2, 3))
case("take_along_dim.flat", lambda x: torch.take_along_dim(x, torch.tensor([[5, 0], [3, 2]])), (2, 3))
integers("tril_indices", lambda: torch.tril_indices(3, 4, 1))
integers("triu_indices", lambda: torch.triu_indices(4, 3, -1))

# Statistics.
for dims in ((), (1,), (0, 2)):
    for name in ("nansum", "nanmean"):
        holes = torch.tensor([[[1.0, nan], [nan, 2]], [[3, 4], [5, nan]]], dtype=f64)
        golden.case(out, f"{name}.{len(dims)}", lambda x, f=getattr(torch, name), d=dims: f(x, d or None), holes)
integers("count_nonzero", lambda x: torch.count_nonzero(x, 1), torch.tensor([[1, 0, 2], [0, 0, 3]]))
case("cov", torch.cov, (3, 5))
case("cov.0", lambda x: torch.cov(x, correction=0), (5,))
case("corrcoef", torch.corrcoef, (3, 5), grid=None)
case("diff", torch.diff, (2, 5))
case("diff.2", lambda x: torch.diff(x, n=2, dim=0), (4, 2))
case("diff.joined", lambda x, a, b: torch.diff(x, prepend=a, append=b), (2, 3), (2, 1), (2, 2))
case("trapezoid", torch.trapezoid, (2, 5))
case("trapezoid.dx", lambda y: torch.trapezoid(y, dx=0.5, dim=0), (4, 2))
case("trapezoid.x", lambda y, x: torch.trapezoid(y, x), (2, 5), (5,))
case("trapezoid.x.dim", lambda y, x: torch.trapezoid(y, x, dim=0), (4, 2), (4,))
case("trapezoid.xs", lambda y, x: torch.trapezoid(y, x), (2, 5), (2, 5))
case("cumulative_trapezoid", torch.cumulative_trapezoid, (2, 5))
case("cumulative_trapezoid.x", lambda y, x: torch.cumulative_trapezoid(y, x), (2, 5), (5,))
spread = torch.tensor([0.0, 1, 1.5, 2.5, 4, -1, nan, 4, 3.999, 5], dtype=f64)
integers("histc", lambda x: torch.histc(x, 4, 0, 4), spread)
integers("histc.range", lambda x: torch.histc(x, 3), spread[:6])
integers("histc.one", lambda x: torch.histc(x, 3), torch.tensor([2.0, 2], dtype=f64))
q = torch.tensor([0.1, 0.5, 0.9], dtype=f64)
case("quantile.several", lambda x: torch.quantile(x, q, 0, keepdim=True), (6, 2))
case("quantile.all", lambda x: torch.quantile(x, q), (3, 3))
integers("logspace", lambda: torch.logspace(-1, 2, 5, dtype=f64))
integers("logspace.2", lambda: torch.logspace(0, 3, 4, base=2, dtype=f64))

# Max pooling of windows that are all -inf: the first element that is not padding is chosen.
lowest = torch.full((1, 1, 5, 4), -inf, dtype=f64)
lowest[0, 0, 4, 3] = 1
lowest.requires_grad_()
y, at = torch.nn.functional.max_pool2d(lowest, 2, 1, 1, 2, return_indices=True)
y.sum().backward()
out.update({"pool.x": lowest, "pool.y": y, "pool.at": at, "pool.d": lowest.grad})
# einsum without sums.
for i, equation in enumerate(("ij,ij->ji", "i,ij,k->kji", "bi,bj->bij", "...i,i->...i")):
    shapes = ((2, 3), (2, 3)), ((2,), (2, 3), (2,)), ((2, 3), (2, 2)), ((2, 2, 3), (3,))
    case(f"einsum.{i}", lambda *xs, e=equation: torch.einsum(e, *xs), *shapes[i])
golden.write("more_ops.txt", out)
