// Winograd's convolution in one dimension.
//
// start fails: two outputs need 6 products; 4 are enough
#include <rondo/rondo.h>

#include <cmath>
#include <iostream>
#include <random>

#include "exercise.h"

namespace rd = rondo;

namespace {

int run() {
  std::minstd_rand random(1);
  std::uniform_real_distribution<double> uniform(-1, 1);
  for (int trial = 0; trial < 100; ++trial) {
    Number x[4], w[3], y[2];
    for (Number& v : x) v.value = uniform(random);
    for (Number& v : w) v.value = uniform(random);
    Number::products = 0;
    two_outputs(x, w, y);
    for (int i = 0; i < 2; ++i) {
      double expected = 0;
      for (int k = 0; k < 3; ++k) expected += x[i + k].value * w[k].value;
      rd::require(std::abs(y[i].value - expected) < 1e-12, "output ", i, " is ", y[i].value,
                  " instead of ", expected);
    }
    rd::require(Number::products <= 4, "two outputs need ", Number::products,
                " products; 4 are enough");
  }
  std::cout << "both outputs are right, with four products\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
