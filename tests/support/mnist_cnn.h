#pragma once

#include "autograd/ops/activation.h"
#include "autograd/ops/shape.h"
#include "nn/batch_norm.h"
#include "nn/conv2d.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace rondo::test {

/// The network of mnist_cnn.pt and mnist_cnn.safetensors (github.com/tracel-ai/burn).
struct MnistCnn : nn::Module {
  nn::Conv2d conv1{1, 8, 3}, conv2{8, 16, 3}, conv3{16, 24, 3};
  nn::BatchNorm2d norm1{24};
  nn::Linear fc1{11616, 32}, fc2{32, 10};
  nn::BatchNorm1d norm2{10};
  Tensor forward(const Tensor& x) override {
    const Tensor features = norm1(relu(conv3(relu(conv2(relu(conv1(x)))))));
    return norm2(fc2(relu(fc1(flatten(features, 1)))));
  }
  void visit(nn::Visitor& v) override {
    v.child("conv1", conv1);
    v.child("conv2", conv2);
    v.child("conv3", conv3);
    v.child("norm1", norm1);
    v.child("fc1", fc1);
    v.child("fc2", fc2);
    v.child("norm2", norm2);
  }
};

}  // namespace rondo::test
