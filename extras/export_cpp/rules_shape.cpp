// Rules for ops that change a shape or the order of elements.

#include "extras/export_cpp/lowering.h"

namespace rondo::io::detail {
namespace {

void expand(Lowering& l) {
  if (l.shape(0) == l.result()) return l.same();
  l.arrange(strides_in(l.shape(0), l.result()));
}

void permute(Lowering& l) {
  const std::vector<Int> from = strides_in(l.shape(0), l.shape(0));
  std::vector<Int> strides;
  for (const Int d : l.integers("order")) strides.push_back(from[static_cast<Index>(d)]);
  l.arrange(strides);
}

void flip(Lowering& l) {
  std::vector<Int> strides = strides_in(l.shape(0), l.shape(0));
  Int first = 0;
  for (const Int d : l.integers("dims")) {
    Int& stride = strides[static_cast<Index>(d)];
    first += stride * (l.shape(0)[d] - 1);
    stride = -stride;
  }
  l.arrange(strides, first);
}

/// For slice, narrow and select, which removes the dimension.
void slice(Lowering& l) {
  std::vector<Int> strides = strides_in(l.shape(0), l.shape(0));
  const auto dim = static_cast<Index>(l.integer("dim"));
  const Int first =
      l.integer("start") * product(l.shape(0), l.integer("dim") + 1, l.shape(0).size());
  if (l.result().size() < l.shape(0).size())
    strides.erase(strides.begin() + l.integer("dim"));
  else
    strides[dim] *= l.integer("step");
  l.arrange(strides, first);
}

/// For split and unbind, which removes the dimension.
void split(Lowering& l) {
  std::vector<Int> strides = strides_in(l.shape(0), l.shape(0));
  const Int dim = l.integer("dim"), stride = product(l.shape(0), dim + 1, l.shape(0).size());
  const bool removes = l.result().size() < l.shape(0).size();
  if (removes) strides.erase(strides.begin() + dim);
  Int first = 0;
  for (Index i = 0; i < l.node().shapes.size(); ++i) {
    if (l.is_used(i)) l.arrange(strides, first, i);
    first += stride * (removes ? 1 : l.result(i)[dim]);
  }
}

void cat(Lowering& l) {
  const Int dim = l.integer("dim"), rows = product(l.result(), 0, dim),
            width = product(l.result(), dim, l.result().size());
  const Place whole = l.buffer(l.result());
  Int first = 0;
  for (Index i = 0; i < l.node().arguments.size(); ++i) {
    const Dims part = l.shape(i);
    if (numel_of(part) == 0) continue;
    const Int n = numel_of(part) / rows;
    l.program().steps.push_back({.kernel = "put",
                                 .sizes = "",
                                 .operands = {l.in(i)},
                                 .output = whole.index,
                                 .numbers = list(rows, n, first, width),
                                 .takes_then = false,
                                 .scope = l.node().scope});
    first += n;
  }
  l.out() = whole;
}

}  // namespace

void add_shape_rules(Rules& rules) {
  rules.insert({{"reshape", &Lowering::same},
                {"view", &Lowering::same},
                {"squeeze", &Lowering::same},
                {"unsqueeze", &Lowering::same},
                {"contiguous", &Lowering::same},
                {"clone", &Lowering::same},
                {"to(dtype)", &Lowering::same},
                {"to(device)", &Lowering::same},
                {"expand", expand},
                {"permute", permute},
                {"flip", flip},
                {"slice", slice},
                {"narrow", slice},
                {"select", slice},
                {"split", split},
                {"unbind", split},
                {"cat", cat}});
}

}  // namespace rondo::io::detail
