// Rules for ops that change a shape, and for indexing.

#include <algorithm>
#include <limits>

#include "extras/onnx/protobuf/onnx_ops.h"

namespace rondo::io::onnx {
namespace {

Names reshape(OpWriter& w) {
  if (w.in_sizes(0) == w.out_sizes()) return {w.in(0)};
  return {w.reshaped(w.in(0))};
}

/// In ONNX, a size of 1 means: unchanged.
Names expand(OpWriter& w) {
  const Sizes& from = w.in_sizes(0);
  if (from == w.out_sizes()) return {w.in(0)};
  Sizes to = w.out_sizes();
  const std::size_t added = to.size() - from.size();
  for (std::size_t d = 0; d < from.size(); ++d)
    if (from[d] == to[added + d]) to[added + d] = {.fixed = 1};
  return {w.node("Expand", {w.in(0), w.shape(to)})};
}

Names permute(OpWriter& w) {
  return {w.node("Transpose", {w.in(0)}, {{"perm", w.integers("order")}})};
}

Names flip(OpWriter& w) {
  const Integers dims = w.integers("dims");
  const std::size_t n = dims.size();
  if (n == 0) return {w.in(0)};
  const Integers last(n, -1), before_first(n, std::numeric_limits<std::int64_t>::min());
  return {
      w.node("Slice", {w.in(0), w.list(last), w.list(before_first), w.list(dims), w.list(last)})};
}

/// For slice, narrow and select.
Names slice(OpWriter& w) {
  const std::int64_t dim = w.integer("dim"), start = w.integer("start"), step = w.integer("step");
  const Size& length = w.out_sizes()[static_cast<std::size_t>(dim)];
  if (w.in_sizes(0) == w.out_sizes() && step == 1) return {w.in(0)};
  const std::int64_t end = start + (w.fixed(length) - 1) * step + 1;
  return {
      w.node("Slice", {w.in(0), w.list({start}), w.list({end}), w.list({dim}), w.list({step})})};
}

/// Leaves out empty tensors, which cat ignores.
Names cat(OpWriter& w) {
  Names parts;
  for (std::size_t i = 0; i < w.arguments(); ++i)
    if (w.in_sizes(i) != Sizes{{.fixed = 0}}) parts.push_back(w.in(i));
  return {w.node("Concat", parts, {{"axis", w.integer("dim")}})};
}

Names split(OpWriter& w) {
  const std::int64_t dim = w.integer("dim");
  if (w.outputs() == 1) return {w.in(0)};
  Integers lengths;
  for (std::size_t i = 0; i < w.outputs(); ++i)
    lengths.push_back(w.fixed(w.out_sizes(i)[static_cast<std::size_t>(dim)]));
  return w.nodes("Split", {w.in(0), w.list(lengths)}, {{"axis", dim}}, w.outputs());
}

Names unbind(OpWriter& w) {
  const std::int64_t dim = w.integer("dim");
  const std::size_t n = w.outputs();
  Names parts = {w.in(0)};
  if (n > 1) parts = w.nodes("Split", {w.in(0), w.list(Integers(n, 1))}, {{"axis", dim}}, n);
  for (std::string& part : parts) part = w.node("Squeeze", {part, w.list({dim})});
  return parts;
}

Names embedding(OpWriter& w) {
  return {w.node("Gather", {w.in(0), w.tensor("index")}, {{"axis", std::int64_t{0}}})};
}

Names index_select(OpWriter& w) {
  return {w.node("Gather", {w.in(0), w.tensor("index")}, {{"axis", w.integer("dim")}})};
}

Names gather(OpWriter& w) {
  return {w.node("GatherElements", {w.in(0), w.tensor("index")}, {{"axis", w.integer("dim")}})};
}

}  // namespace

void add_shape_rules(Rules& rules) {
  rules.insert({{"reshape", reshape},
                {"view", reshape},
                {"squeeze", reshape},
                {"unsqueeze", reshape},
                {"expand", expand},
                {"permute", permute},
                {"flip", flip},
                {"slice", slice},
                {"narrow", slice},
                {"select", slice},
                {"cat", cat},
                {"split", split},
                {"unbind", unbind},
                {"embedding", embedding},
                {"index_select", index_select},
                {"gather", gather}});
}

}  // namespace rondo::io::onnx
