// F(2, 3) with the points 0, 1, -1, infinity: four products.
#include "exercise.h"

void two_outputs(const Number x[4], const Number w[3], Number y[2]) {
  const Number sum = 0.5 * (w[0] + w[1] + w[2]), alternating = 0.5 * (w[0] - w[1] + w[2]);
  const Number at_zero = (x[0] - x[2]) * w[0];
  const Number at_one = (x[1] + x[2]) * sum;
  const Number at_minus_one = (x[2] - x[1]) * alternating;
  const Number at_infinity = (x[1] - x[3]) * w[2];
  y[0] = at_zero + at_one + at_minus_one;
  y[1] = at_one - at_minus_one - at_infinity;
}
