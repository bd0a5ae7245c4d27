#pragma once
// What options of several schedules have in common: values for each group, and the shape of a
// descent.

#include <cstdint>
#include <vector>

#include "optim/optimizer.h"

namespace rondo::optim {

enum class Anneal : std::uint8_t { cos, linear };

/// One value for all groups, or one value for each group.
struct PerGroup {
  std::vector<double> values;
  PerGroup(double value) : values{value} {}
  PerGroup(std::vector<double> values) : values(std::move(values)) {}
  double at(std::size_t group) const { return values.size() == 1 ? values[0] : values.at(group); }
  /// Throws Error "OneCycleLR: max_lr has 3 values, the optimizer 2 groups".
  void check_length(const char* type, const char* name, const Optimizer& optimizer) const {
    require(values.size() == 1 || values.size() == optimizer.num_groups(), type, ": ", name,
            " has ", values.size(), " values, the optimizer ", optimizer.num_groups(), " groups");
  }
};

}  // namespace rondo::optim
