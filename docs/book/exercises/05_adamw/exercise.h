#pragma once
// What start.cpp and solution.cpp define.

struct Parameter {
  double p = 0, m = 0, v = 0;  // the parameter, and the moments of its gradient
};
struct Options {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 1e-2;
};

/// Step t = 1, 2, … of AdamW with the gradient g.
void adamw_step(Parameter& x, double g, int t, const Options& o);
