#include "extras/export_cpp/plan.h"

#include <algorithm>

namespace rondo::io::detail {

Plan planned(const Program& program) {
  const Index count = program.buffers.size(), end = program.steps.size();
  std::vector<Index> first(count, end), last(count, 0);
  for (Index s = 0; s < end; ++s) {
    const auto uses = [&](Index buffer) {
      first[buffer] = std::min(first[buffer], s);
      last[buffer] = s;
    };
    for (const Place& x : program.steps[s].operands)
      if (x.kind == Place::Kind::buffer) uses(x.index);
    uses(program.steps[s].output);
  }
  const Index y = program.output.index;  // is in the caller's memory
  Plan plan{.offsets = std::vector<Int>(count, 0)};
  std::vector<Index> placed;
  for (Index s = 0; s < end; ++s) {
    const Step& step = program.steps[s];
    for (Index b = 0; b < count; ++b) {
      if (first[b] != s || b == y) continue;
      const auto overwrites = [&](const Place& x) {
        return b == step.output && step.in_place && x.kind == Place::Kind::buffer && x.index != y &&
               last[x.index] == s && program.buffers[x.index] == program.buffers[b];
      };
      const auto operand = std::ranges::find_if(step.operands, overwrites);
      Int at = 0;
      if (operand != step.operands.end()) {
        at = plan.offsets[operand->index];
      } else {  // the first gap
        const auto size_of = [&](Index buffer) { return (program.buffers[buffer] + 15) / 16 * 16; };
        std::ranges::sort(placed, {}, [&](Index other) { return plan.offsets[other]; });
        for (const Index other : placed)
          if (last[other] >= s && plan.offsets[other] < at + size_of(b))
            at = std::max(at, plan.offsets[other] + size_of(other));
        plan.size = std::max(plan.size, at + size_of(b));
      }
      plan.offsets[b] = at;
      placed.push_back(b);
    }
  }
  return plan;
}

}  // namespace rondo::io::detail
