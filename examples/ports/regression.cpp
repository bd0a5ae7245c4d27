// Learns the coefficients of a polynomial of degree 4 from noise-free samples.
//
//   build/bin/ports/regression

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

constexpr std::int64_t degree = 4;

/// Columns x, x², x³, x⁴.
Tensor powers(const Tensor& x) {
  rd::Tensors columns = {x};
  for (std::int64_t i = 1; i < degree; ++i) columns.push_back(columns.back() * x);
  return rd::stack(columns, 1);
}

std::string text_of(const Tensor& weights, const Tensor& bias) {
  std::string text = "y =";
  char term[40];
  for (std::int64_t i = degree; i > 0; --i) {
    std::snprintf(term, sizeof term, " %+.2f x^%ld", weights[i - 1].item(), i);
    text += term;
  }
  std::snprintf(term, sizeof term, " %+.2f", bias.item());
  return text + term;
}

int run(int argc, char** argv) {
  std::int64_t batch = 32, most_steps = 100'000;
  double enough = 1e-3;
  rd::flags::CommandLine line("Learns a polynomial of degree 4.");
  line.add("--batch", batch, "samples in a step", rd::flags::count());
  line.add("--loss", enough, "stop below this loss", rd::flags::positive());
  line.add("--steps", most_steps, "stop after so many steps", rd::flags::count());
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(2);
  const Tensor weights = rd::randn({degree}) * 5.0, bias = rd::randn({1}) * 5.0;
  rd::nn::Linear model(degree, 1);
  double loss = enough;
  std::int64_t step = 0;
  while (loss >= enough && step < most_steps) {
    const Tensor x = powers(rd::randn({batch})), y = matmul(x, weights) + bias;
    model.zero_grad();
    const Tensor error = smooth_l1_loss(model(x).squeeze(1), y);
    error.backward();
    loss = error.item();
    const rd::NoGradGuard no_grad;
    for (const Tensor& p : model.parameters()) p.add_(p.grad(), -0.1);
    ++step;
  }
  std::printf("loss %.6f after %ld steps\n", loss, step);
  std::printf("learned %s\n", text_of(model.weight[0], model.bias).c_str());
  std::printf("actual  %s\n", text_of(weights, bias).c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
