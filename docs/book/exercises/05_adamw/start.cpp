// Adam with weight decay in the gradient. This is not AdamW.
#include <cmath>

#include "exercise.h"

void adamw_step(Parameter& x, double g, int t, const Options& o) {
  g += o.weight_decay * x.p;
  x.m = o.beta1 * x.m + (1 - o.beta1) * g;
  x.v = o.beta2 * x.v + (1 - o.beta2) * g * g;
  const double m = x.m / (1 - std::pow(o.beta1, t)), v = x.v / (1 - std::pow(o.beta2, t));
  x.p -= o.lr * m / (std::sqrt(v) + o.eps);
}
