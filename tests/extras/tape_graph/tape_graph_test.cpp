// The tape as a text for Graphviz: each node once, leaves by name, gradients by shape.

#include "extras/tape_graph/tape_graph.h"

#include <gtest/gtest.h>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "autograd/record.h"
#include "nn/containers.h"
#include "nn/linear.h"
#include "support/errors.h"
#include "tensor/creation.h"

namespace rondo {
namespace {

TEST(TapeGraph, ShowsEachNodeOnce) {
  nn::Sequential net(nn::Linear(2, 3));
  const Tensor x = ones({4, 2}), a = net(x), w = ones({3}).requires_grad_();
  EXPECT_EQ(tape_graph(sum(a * w + exp(a)), net.named_parameters()),
            R"(digraph tape {
  nodesep=0.1; ranksep=0.3; ordering=out;
  node [shape=box, height=0.3];
  edge [fontsize=10];
  n0 [label="sum"];
  n1 [label="add"];
  n2 [label="mul"];
  n3 [label="exp"];
  n4 [label="linear"];
  n5 [style=rounded, fontsize=10, label="leaf\n[3]"];
  n6 [style=rounded, fontsize=10, label="0.weight\n[3, 2]"];
  n7 [style=rounded, fontsize=10, label="0.bias\n[3]"];
  n0 -> n1 [label=" [4, 3]"];
  n1 -> n2 [label=" [4, 3]"];
  n1 -> n3 [label=" [4, 3]"];
  n2 -> n4 [label=" [4, 3]"];
  n2 -> n5;
  n3 -> n4 [label=" [4, 3]"];
  n4 -> n6;
  n4 -> n7;
}
)");
}

TEST(TapeGraph, AnArrowHasTheShapeOfItsOutput) {
  const Tensor x = ones({4, 3}).requires_grad_();
  const Tensors parts = split(exp(x), {1, 3}, 0);
  EXPECT_NE(tape_graph(parts[1]).find("n0 -> n1 [label=\" [4, 3]\"]"), std::string::npos);
  EXPECT_NE(tape_graph(sum(parts[1])).find("n0 -> n1 [label=\" [3, 3]\"]"), std::string::npos);
}

TEST(TapeGraph, EscapesNames) {
  const Tensor w = scalar(1.0).requires_grad_();
  EXPECT_NE(tape_graph(w, {{"a\"b\\", w}}).find(R"(label="a\"b\\\n[]"])"), std::string::npos);
}

TEST(TapeGraph, ALongTapeNeedsNoRecursion) {
  Tensor y = scalar(1.0).requires_grad_();
  for (int i = 0; i < 200'000; ++i) y = y + 1.0;
  EXPECT_NE(tape_graph(y).find("n200000 [style=rounded, fontsize=10, label=\"leaf\\n[]\"]"),
            std::string::npos);
}

TEST(TapeGraph, ATensorWithoutATape) {
  const Tensor w = ones({3}).requires_grad_();
  EXPECT_ERROR(tape_graph(ones({2})), AutogradError,
               "tape_graph: the tensor of shape [2] has no tape; compute it, with recording on, "
               "from a tensor that requires a gradient");
  EXPECT_ERROR(tape_graph(no_grad([&] { return w * 2.0; })), AutogradError,
               "tape_graph: the tensor of shape [3] has no tape");
  EXPECT_ERROR(tape_graph(Tensor()), AutogradError,
               "tape_graph: the tensor is undefined and has no tape");
}

}  // namespace
}  // namespace rondo
