"""Goldens for tests/autograd/subscript_test.cpp: python3 tests/golden/make_subscript.py (needs torch). Index expressions and
scatters, by the names that the test gives them."""

import torch

import golden

torch.manual_seed(7)
out = {}
i64 = torch.int64
a = torch.tensor([2, 0, -1])
b = torch.tensor([[1], [-2]])
mask3 = torch.tensor([True, False, True])
mask34 = (torch.arange(12).reshape(3, 4) % 3) == 1
mask = (torch.arange(60).reshape(3, 4, 5) % 7) == 2
none = torch.zeros(3, dtype=torch.bool)
E = Ellipsis


def case(name, f, *shapes):
    golden.case(out, name, f, *(golden.drawn(s, grid=4) for s in shapes))


INDEX = {
    "number": 1, "negative": -1, "numbers": (1, -2), "all_numbers": (1, 2, 3), "slice": slice(1, 3), "step": slice(None, None, 2),
    "slices": (slice(0, 2), slice(-3, None), slice(4, 1)), "past_the_end": (slice(None), slice(2, 99, 3)), "none": (None, 1, None),
    "ellipsis": (E, 0), "ellipsis_none": (E, None, slice(0, 2)), "ellipsis_of_nothing": (0, E, 1, 2), "empty": (),
    "tensor": a, "tensor_middle": (slice(None), a), "tensor_last": (E, a), "tensor_2d": b, "pair": (a, b), "pair_apart": (a, slice(None), b),
    "pair_inside": (slice(None), a, b), "three": (a, b, a), "tensor_and_number": (0, slice(None), a), "number_between": (a, 1, b),
    "tensor_and_none": (a, None, a), "tensor_slice": (slice(1, None), a, slice(None, None, 2)), "scalar_tensor": torch.tensor(1), "number_tensor_first": (torch.tensor(-1), slice(None), a),
    "mask": mask, "mask_first": mask3, "mask_two": mask34, "mask_and_slice": (mask3, slice(1, 3)), "mask_and_tensor": (mask3, torch.tensor([1, 0])),
    "mask_none": none, "empty_tensor": torch.zeros(0, dtype=i64), "ellipsis_mask": (E, torch.tensor([True, False, False, True, True])),
}


def entries(where):
    return where if isinstance(where, tuple) else (where,)


def put(x, where, v):
    y = x.clone()
    y[where] = v
    return y


def add(x, where, v):
    if any(isinstance(e, torch.Tensor) for e in entries(where)):
        return torch.index_put(x, entries(where), v, accumulate=True)
    y = x.clone()
    y[where] += v
    return y


for name, where in INDEX.items():
    case(f"get.{name}", lambda x, w=where: x[w], (3, 4, 5))
    positions = torch.arange(60).reshape(3, 4, 5)[where]
    if positions.unique().numel() == positions.numel():  # else the result of a write depends on its order
        case(f"put.{name}", lambda x, v, w=where: put(x, w, v), (3, 4, 5), positions.shape)
        case(f"put_one.{name}", lambda x, v, w=where: put(x, w, v), (3, 4, 5), ())
    tensors = sum(isinstance(e, torch.Tensor) for e in entries(where))
    if tensors in (0, len(entries(where))):  # torch's index_put takes only tensors
        case(f"add.{name}", lambda x, v, w=where: add(x, w, v), (3, 4, 5), positions.shape)

once = torch.tensor([[0, 2, 1, 0], [2, 1, 0, 1]])
case("scatter", lambda x, v: x.scatter(0, once, v), (3, 4), (2, 4))
case("scatter.larger", lambda x, v: x.scatter(0, once[:, :3], v[:2, :3]), (3, 4), (3, 5))
case("scatter.value", lambda x: x.scatter(0, once, 3.5), (3, 4))
many = torch.tensor([[0, 0, 1, 0], [1, 1, 1, 1], [0, 2, 2, 0]])
for reduce in ("sum", "prod", "mean", "amax", "amin"):
    for self in (True, False):
        golden.case(out, f"reduce.{reduce}.{int(self)}",
                    lambda x, v, r=reduce, s=self: x.scatter_reduce(1, many, v, r, include_self=s), golden.drawn((3, 3)),
                    golden.drawn((3, 4)))
        # Ties and zeros.
        xs = [torch.tensor([[0.0, 1, 2], [1, 1, 0], [3, 0, 2]], dtype=torch.float64),
              torch.tensor([[0.0, 2, 0, 2], [1, 1, 2, 1], [0, 2, 2, 3]], dtype=torch.float64)]
        golden.case(out, f"ties.{reduce}.{int(self)}",
                      lambda x, v, r=reduce, s=self: x.scatter_reduce(1, many, v, r, include_self=s), *xs)
which = torch.tensor([2, 0])
case("index_add", lambda x, v: x.index_add(1, torch.tensor([2, 0, 2]), v, alpha=0.5), (2, 4), (2, 3))
case("index_copy", lambda x, v: x.index_copy(0, which, v), (3, 4), (2, 4))
case("index_fill", lambda x: x.index_fill(1, which, 2.5), (3, 4))
case("masked_select", lambda x: x.masked_select(mask34[:1]), (3, 4))
case("take_along_dim", lambda x: torch.take_along_dim(x, torch.tensor([[0, 2, 1]]), 1), (4, 3))
out["nonzero"] = torch.nonzero(mask)
golden.write("subscript.txt", out)
