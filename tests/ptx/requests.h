#pragma once
// How well a kernel's accesses fit the GPU's memory, which moves sectors of 32 bytes: a warp's n-th
// access outside of shared memory is one request, and the bytes that it asks for, divided by those
// of the sectors that it touches, are the share of the memory's peak rate that it can reach. Only
// requests of whole warps count. Where lanes diverge, their n-th accesses may be different
// instructions.

#include <cstdint>
#include <map>
#include <string>

#include "ptx/ptx.h"

namespace rondo::ptx {

struct Requests {
  std::int64_t bytes = 0, sectors = 0;
};

/// Of all kernels that were launched, by their mangled names.
const std::map<std::string, Requests>& requests();

/// The first accesses of a thread are enough, and the first blocks of a launch.
inline constexpr std::uint32_t sampled_accesses = 64, sampled_blocks = 4;

/// After the last thread of a sampled block.
void finish_requests(const Kernel& kernel);

}  // namespace rondo::ptx
