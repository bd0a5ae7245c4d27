// README's twenty lines, with what a step changes.
//
//   build/bin/book/05_circle [FILE]     also writes the net's answers on a grid, as JSON
#include <rondo/rondo.h>

#include <fstream>
#include <iomanip>
#include <iostream>

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {
constexpr std::int64_t side = 41;
std::string answers_on_a_grid(nn::Sequential& net);
}  // namespace

int main(int argc, char** argv) {
  rd::manual_seed(1);
  Tensor x = rd::rand({1000, 2}) * 2.0 - 1.0;
  Tensor y = lt(sum(square(x), {1}), 0.6).to(rd::i64);
  nn::Sequential net{nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 2)};
  rd::optim::Adam adam(net.parameters(), {.lr = 0.01});
  Tensor w = net.parameters()[0];

  std::string grids;
  std::cout << std::fixed << std::setprecision(4) << "step    loss  accuracy  w[0][0]\n";
  for (int step = 0; step <= 300; ++step) {
    Tensor logits = net(x), loss = cross_entropy(logits, y);
    if (step == 0 || step == 1 || step == 10 || step == 30 || step == 100 || step == 300) {
      std::cout << std::setw(4) << step << "  " << loss.item() << "    "
                << eq(logits.argmax(1), y).to(rd::f32).mean().item() << "   " << w[0][0].item()
                << "\n";
      grids += rd::concat(grids.empty() ? "" : ",\n", "  {\"step\": ", step, ", \"inside\": \"",
                          answers_on_a_grid(net), "\"}");
    }
    adam.zero_grad();
    loss.backward();
    adam.step();
  }
  if (argc > 1)
    std::ofstream(argv[1]) << "{\"side\": " << side << ", \"grids\": [\n" << grids << "\n]}\n";
}

namespace {

/// One digit for each point of a grid: 1 if the net says "inside".
std::string answers_on_a_grid(nn::Sequential& net) {
  const rd::NoGradGuard no_grad;
  Tensor axis = rd::arange(side).to(rd::f32) * (2.0 / (side - 1)) - 1.0;
  Tensor grid = rd::stack({axis.unsqueeze(0).expand({side, side}).flatten(),
                           axis.unsqueeze(1).expand({side, side}).flatten()},
                          1);
  std::string digits;
  for (const std::int64_t answer : net(grid).argmax(1).to_vector<std::int64_t>())
    digits += static_cast<char>('0' + answer);
  return digits;
}

}  // namespace
