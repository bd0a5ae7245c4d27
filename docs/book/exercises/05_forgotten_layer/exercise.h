#pragma once
// What start.cpp and solution.cpp define.

#include <rondo/rondo.h>

/// A classifier of points in a square, of three layers.
struct Net : rondo::nn::Module {
  rondo::nn::Linear first{2, 32}, second{32, 32}, last{32, 2};
  rondo::Tensor forward(const rondo::Tensor& x) override {
    return last(relu(second(relu(first(x)))));
  }
  void visit(rondo::nn::Visitor& v) override;
};
