// Two LSTM layers learn sine waves of random phase with L-BFGS, and continue them.
//
//   build/bin/ports/time_sequence_prediction --steps 15

#include <rondo/rondo.h>

#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

/// (waves, length) in f64.
Tensor sine_waves(std::int64_t waves, std::int64_t length, double period) {
  const Tensor phase = rd::randint(-80, 80, {waves, 1}).to(rd::f64);
  return sin((rd::arange(length).to(rd::f64) + phase) / period);
}

struct Predictor : nn::Module {
  nn::LSTM lstm{1, 51, {.num_layers = 2, .batch_first = true}};
  nn::Linear linear{51, 1};

  /// The next value after each value of x (N, L), and `future` more, each from the one before it.
  Tensor predict(const Tensor& x, std::int64_t future) {
    nn::LSTMOutput out = lstm(x.unsqueeze(2), {});
    rd::Tensors parts = {linear(out.output).squeeze(2)};
    for (std::int64_t i = 0; i < future; ++i) {
      const Tensor last = parts.back().narrow(1, parts.back().size(1) - 1, 1);
      out = lstm(last.unsqueeze(2), out.state);
      parts.push_back(linear(out.output).squeeze(2));
    }
    return rd::cat(parts, 1);
  }
  Tensor forward(const Tensor& x) override { return predict(x, 0); }
  void visit(nn::Visitor& v) override {
    v.child("lstm", lstm);
    v.child("linear", linear);
  }
};

int run(int argc, char** argv) {
  int steps = 15;
  std::int64_t waves = 100, length = 1000, future = 1000;
  rd::flags::CommandLine line("Two LSTM layers learn sine waves and continue them.");
  line.add("--steps", steps, "steps of L-BFGS, each with up to 20 evaluations", rd::flags::count());
  line.add("--waves", waves, "number of waves; three more are for the test", rd::flags::count());
  line.add("--length", length, "values of a wave", rd::flags::whole_number(2, 1'000'000));
  line.add("--future", future, "values to continue", rd::flags::whole_number(0, 1'000'000));
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(0);
  const Tensor all = sine_waves(waves + 3, length + future, 20);
  const Tensor known = all.narrow(1, 0, length);
  const Tensor input = known.narrow(0, 3, waves).narrow(1, 0, length - 1),
               target = known.narrow(0, 3, waves).narrow(1, 1, length - 1),
               test_input = known.narrow(0, 0, 3).narrow(1, 0, length - 1),
               test_target = all.narrow(0, 0, 3).narrow(1, 1, length + future - 1);
  Predictor net;
  net.to(rd::f64);
  rd::optim::LBFGS lbfgs(net.parameters(), {.lr = 0.8});
  for (int step = 1; step <= steps; ++step) {
    const Tensor loss = lbfgs.step([&] {
      lbfgs.zero_grad();
      const Tensor error = mse_loss(net(input), target);
      error.backward();
      return error;
    });
    const rd::NoGradGuard no_grad;
    const Tensor continued = net.predict(test_input, future);
    std::printf("step %d: loss %.6f, test loss with the continuation %.6f\n", step, loss.item(),
                mse_loss(continued, test_target).item());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
