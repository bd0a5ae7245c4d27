// Keeps the input of each block, and computes the rest again.
#include "exercise.h"

rondo::Tensor run_blocks(std::vector<rondo::nn::Sequential>& blocks, rondo::Tensor x) {
  for (rondo::nn::Sequential& block : blocks) x = checkpoint(block, x);
  return x;
}
