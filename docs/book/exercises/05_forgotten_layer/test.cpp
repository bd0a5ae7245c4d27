// A step must change every layer of the net.
//
// start fails: that requires a gradient was used by linear in the forward of Linear
#include <rondo/rondo.h>

#include <iostream>

#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

int run() {
  rd::manual_seed(1);
  Net net;
  const Tensor x = rd::rand({64, 2}), y = lt(sum(square(x), {1}), 0.6).to(rd::i64);
  const Tensor before = net.second.weight.detach().clone();
  rd::optim::SGD sgd(net.parameters(), {.lr = 0.1});
  cross_entropy(net(x), y).backward();
  sgd.step();
  rd::require(!equal(net.second.weight, before), "the step did not change the second layer");
  rd::require(net.num_parameters() == 96 + 1056 + 66, "the net has ", net.num_parameters(),
              " parameters");
  const auto state = net.state_dict();
  const bool in_order = state.size() == 6 && state[2].name == "second.weight";
  rd::require(in_order, "the state dict does not have the layers in the order of forward");
  std::cout << "the step changed all layers\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
