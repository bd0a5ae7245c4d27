#pragma once
// test_device: where the tests that know PyTorch's numbers compute.
//
// The CPU; or with RONDO_TEST_DEVICE=cuda a GPU, a simulated one where the machine has none. CTest
// runs such tests twice, as nn/layers and nn/layers.cuda, and scripts/gpu_check.sh on a GPU.

#include "tensor/device.h"

namespace rondo::test {

Device test_device();

}  // namespace rondo::test
