#pragma once
// A user's module with two inputs and three results.

#include <vector>

#include "autograd/ops/activation.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/matmul.h"
#include "nn/linear.h"
#include "nn/module.h"

namespace rondo::test {

struct Detections {
  Tensor scores, boxes;
  Tensors features;

  template <class V>
  void visit(V&& v) {
    v("scores", scores);
    v("boxes", boxes);
    v("features", features);
  }
};

/// x and mask (N, 6). Without a mask, nothing is hidden.
struct Detector : nn::ModuleOf<Detections(Tensor, Tensor)> {
  nn::Linear body{6, 8}, score{8, 3}, box{8, 4};

  Detections forward(Tensor x, Tensor mask) override {
    if (mask.defined()) x = x * mask;
    const Tensor y = relu(body(x));
    return {score(y), box(y), {y}};
  }
  void visit(nn::Visitor& v) override {
    v.child("body", body);
    v.child("score", score);
    v.child("box", box);
  }
};

/// A number that every result and every parameter changes.
inline Tensor loss_of(const Detections& found) {
  return (found.scores * found.scores).mean() + found.boxes.mean() + found.features[0].mean();
}

}  // namespace rondo::test
