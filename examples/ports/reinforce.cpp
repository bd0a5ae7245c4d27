// REINFORCE (Williams 1992) on the cart-pole: a policy learns to balance a pole on a cart.
//
//   build/bin/ports/reinforce

#include <rondo/rondo.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "extras/command_line.h"

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {

/// The cart-pole of Barto, Sutton and Anderson (1983): a force of 10 N to the left or to the right
/// every 0.02 s. The pole has fallen at 12 degrees; the cart must stay within 2.4 m.
struct CartPole {
  double x = 0, speed = 0, angle = 0, turning = 0;

  void reset() {
    for (double* part : {&x, &speed, &angle, &turning}) *part = rd::rand({1}).item() * 0.1 - 0.05;
  }
  Tensor observation() const { return rd::tensor({x, speed, angle, turning}).to(rd::f32); }
  /// Returns whether the pole still stands.
  bool step(bool to_the_right) {
    constexpr double gravity = 9.8, cart = 1, pole = 0.1, half_length = 0.5, dt = 0.02;
    const double total = cart + pole, force = to_the_right ? 10 : -10;
    const double pushed =
        (force + pole * half_length * turning * turning * std::sin(angle)) / total;
    const double turn =
        (gravity * std::sin(angle) - std::cos(angle) * pushed) /
        (half_length * (4.0 / 3 - pole * std::cos(angle) * std::cos(angle) / total));
    const double push = pushed - pole * half_length * turn * std::cos(angle) / total;
    x += dt * speed;
    speed += dt * push;
    angle += dt * turning;
    turning += dt * turn;
    return std::abs(x) <= 2.4 && std::abs(angle) <= 12 * M_PI / 180;
  }
};

/// The loss of an episode: -Σ log p(action) · return, where the discounted returns are normalised.
Tensor loss_of(const rd::Tensors& log_probabilities, double discount) {
  std::vector<double> returns(log_probabilities.size());
  double sum = 0;
  for (std::size_t t = returns.size(); t-- > 0;) returns[t] = sum = 1 + discount * sum;
  Tensor all = rd::tensor(returns).to(rd::f32);
  if (returns.size() > 1) all = (all - all.mean()) / (all.std() + 1e-7);
  return -rd::sum(rd::stack(log_probabilities) * all);
}

int run(int argc, char** argv) {
  int episodes = 1000, every = 10;
  double discount = 0.99;
  std::uint64_t seed = 543;
  rd::flags::CommandLine line("A policy learns to balance a pole on a cart.");
  line.add("--episodes", episodes, "stop after so many episodes", rd::flags::count());
  line.add("--every", every, "episodes between two lines of output", rd::flags::count());
  line.add("--discount", discount, "how much a later reward counts");
  line.add("--seed", seed, "seed of the policy and the cart");
  if (const auto status = line.parse(argc, argv)) return *status;

  rd::manual_seed(seed);
  nn::Sequential policy(nn::Linear(4, 128), nn::Dropout(0.6), nn::ReLU(), nn::Linear(128, 2));
  rd::optim::Adam adam(policy.parameters(), {.lr = 1e-2});
  CartPole cart;
  double running = 10;
  for (int episode = 1; episode <= episodes; ++episode) {
    cart.reset();
    rd::Tensors log_probabilities;
    for (bool stands = true; stands && log_probabilities.size() < 500;) {
      const Tensor log_p = log_softmax(policy(cart.observation()), 0);
      const auto action = multinomial(exp(log_p.detach()), 1).item<std::int64_t>();
      log_probabilities.push_back(log_p[action]);
      stands = cart.step(action == 1);
    }
    adam.zero_grad();
    loss_of(log_probabilities, discount).backward();
    adam.step();
    const auto length = static_cast<double>(log_probabilities.size());
    running = 0.05 * length + 0.95 * running;
    if (episode % every == 0)
      std::printf("episode %d: %.0f steps, running mean %.2f\n", episode, length, running);
    if (running > 475) {
      std::printf("solved after %d episodes\n", episode);
      break;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return rd::flags::run_program(argc, argv, run); }
