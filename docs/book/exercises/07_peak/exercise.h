#pragma once
// What start.cpp and solution.cpp define.

#include <rondo/rondo.h>

#include <vector>

/// Runs x through all blocks, one after the other. Backward may compute results again.
rondo::Tensor run_blocks(std::vector<rondo::nn::Sequential>& blocks, rondo::Tensor x);
