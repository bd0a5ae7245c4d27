#pragma once
// Compares a layer or an op on sequences with PyTorch: the cases that tests/golden/make_sequence.py
// wrote to sequence.txt.

#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"
#include "tensor/tensor.h"

namespace rondo::test {

/// Runs f on inputs of these shapes, filled like in the script. Compares its outputs with NAME.y0
/// …, the inputs' gradients with NAME.dx0 …, and the gradients of the module's parameters, filled
/// too, with NAME.d.KEY, within the rounding of `dtype` in sums of `length` products. All arguments
/// of f are on test_device(). Fails if sequence.txt has more outputs or inputs.
void expect_sequence(const std::string& name, const std::vector<Dims>& shapes, DType dtype,
                     const std::function<Tensors(const Tensors&)>& f, nn::Module* module = nullptr,
                     std::int64_t length = 50);

/// The names and shapes of all parameters, "name[2, 3]", in order.
std::vector<std::string> parameter_names(nn::Module& module);

}  // namespace rondo::test
