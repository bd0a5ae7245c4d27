// AdamW for one parameter, compared with optim::AdamW.
//
// start fails: with a gradient of 0 the parameter is
#include <rondo/rondo.h>

#include <cmath>
#include <iostream>

#include "exercise.h"

namespace rd = rondo;

namespace {

void check(const char* what, double gradient_at_1, double slope) {
  rd::Tensor p = rd::tensor<double>({1}).requires_grad_();
  rd::optim::AdamW adamw({p}, {.lr = 0.1, .weight_decay = 0.5});
  Parameter mine{.p = 1};
  for (int t = 1; t <= 20; ++t) {
    const double g = gradient_at_1 + slope * (mine.p - 1);
    p.set_grad(rd::tensor<double>({g}));
    adamw.step();
    adamw_step(mine, g, t, {.lr = 0.1, .weight_decay = 0.5});
    rd::require(std::abs(mine.p - p.item()) < 1e-12, "with ", what, " the parameter is ", mine.p,
                " after step ", t, " instead of ", p.item());
  }
}

int run() {
  check("a gradient of 0", 0, 0);
  check("a gradient of 3", 3, 0);
  check("a gradient of 0.001", 0.001, 0);
  check("the gradient of a parabola", 2, 2);
  std::cout << "twenty steps agree with optim::AdamW\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
