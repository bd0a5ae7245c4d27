#pragma once
// What a program has launched.

#include <cstdint>
#include <string>
#include <vector>

namespace rondo::ptx {

/// A launch whose longest loops ran in few threads: most of a GPU is idle, and for long.
struct LongLoop {
  std::string kernel;
  std::int64_t threads, steps;  // whose loops are long, and how often the longest ran
  std::int64_t bytes;           // that the launch read and wrote: what it should cost
};

inline constexpr std::int64_t few_threads = 64, many_steps = 400;
const std::vector<LongLoop>& long_loops();

}  // namespace rondo::ptx
