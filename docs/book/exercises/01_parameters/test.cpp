// Counts the parameters of layers, and of a whole model.
//
// start fails: Linear(2, 32) has 96 parameters, not 64
#include <rondo/rondo.h>

#include <iostream>
#include <string>

#include "exercise.h"
#include "nn/models/cifar_resnet.h"

namespace rd = rondo;
namespace nn = rondo::nn;

namespace {

void check(const std::string& what, nn::Module& module, std::int64_t counted) {
  rd::require(counted == module.num_parameters(), what, " has ", module.num_parameters(),
              " parameters, not ", counted);
}

int run() {
  nn::Linear linear(2, 32), no_bias(32, 2, {.bias = false});
  check("Linear(2, 32)", linear, parameters_of_linear(2, 32, true));
  check("Linear(32, 2) without bias", no_bias, parameters_of_linear(32, 2, false));
  nn::Conv2d conv(8, 16, 3), grouped(8, 16, 5, {.groups = 4, .bias = false});
  check("Conv2d(8, 16, 3)", conv, parameters_of_conv(8, 16, 3, 1, true));
  check("Conv2d(8, 16, 5) of 4 groups without bias", grouped,
        parameters_of_conv(8, 16, 5, 4, false));
  nn::BatchNorm2d norm(16);
  check("BatchNorm2d(16)", norm, parameters_of_batch_norm(16));
  nn::CifarResNet resnet20({.depth = 20}), resnet56({.depth = 56});
  check("ResNet-20", resnet20, parameters_of_resnet(3));
  check("ResNet-56", resnet56, parameters_of_resnet(9));
  std::cout << "ResNet-20 has " << resnet20.num_parameters() << " parameters\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
