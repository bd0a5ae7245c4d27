#pragma once
// What start.cpp and solution.cpp define.

#include <cstdint>
#include <vector>

enum class Rest { pad, drop };

/// The indices of 0 … size-1 that a rank visits. All ranks visit equally many. If the number of
/// ranks does not divide `size`, pad: the first indices are visited again; drop: the last ones are
/// not visited. Together, the k-th indices of all ranks are a run of the order 0, 1, ….
std::vector<std::int64_t> share_of(std::int64_t size, int rank, int world_size, Rest rest);
