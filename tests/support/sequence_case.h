#pragma once
// A layer or an op on sequences against PyTorch: the cases that tests/golden/make_sequence.py wrote
// to sequence.txt.

#include <functional>
#include <string>
#include <vector>

#include "nn/module.h"
#include "tensor/tensor.h"

namespace rondo::test {

/// Runs f on inputs of these shapes, which are filled as the script fills them, and compares what
/// it returns with NAME.y0 …, the inputs' gradients with NAME.dx0 …, and the gradients of the
/// module's parameters, filled as well, with NAME.d.KEY, within the rounding of `dtype` in sums of
/// `length` products. All that f gets lies on test_device(). Fails where sequence.txt holds more
/// outputs or inputs than there are.
void expect_sequence(const std::string& name, const std::vector<Dims>& shapes, DType dtype,
                     const std::function<Tensors(const Tensors&)>& f, nn::Module* module = nullptr,
                     std::int64_t length = 50);

/// The names and shapes of all parameters, "name[2, 3]", in order.
std::vector<std::string> parameter_names(nn::Module& module);

}  // namespace rondo::test
