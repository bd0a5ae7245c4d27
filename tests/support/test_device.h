#pragma once
// test_device: the device of the tests that compare with PyTorch's numbers.
//
// The CPU, or with RONDO_TEST_DEVICE=cuda a GPU, which is simulated if the machine has none. CTest
// runs such tests twice, as nn/layers and nn/layers.cuda; scripts/gpu_check.sh runs them on a GPU.

#include "tensor/device.h"

namespace rondo::test {

Device test_device();

}  // namespace rondo::test
