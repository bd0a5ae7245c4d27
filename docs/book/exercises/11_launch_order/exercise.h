#pragma once
// What start.cpp and solution.cpp define, and what they may use.

#include <cstddef>
#include <functional>
#include <vector>

/// The buckets of one rank during one backward.
struct Buckets {
  std::vector<bool> is_full;                // of each bucket
  std::size_t next = 0;                     // for your use; 0 at the start of backward
  std::function<void(std::size_t)> launch;  // issues the all-reduce of this bucket
};

/// Called when the last gradient of `bucket` is complete, once for each bucket. Launches what may
/// be launched now. is_full[bucket] is still false.
void bucket_is_full(Buckets& buckets, std::size_t bucket);
