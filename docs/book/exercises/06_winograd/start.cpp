// The definition: six products.
#include "exercise.h"

void two_outputs(const Number x[4], const Number w[3], Number y[2]) {
  y[0] = x[0] * w[0] + x[1] * w[1] + x[2] * w[2];
  y[1] = x[1] * w[0] + x[2] * w[1] + x[3] * w[2];
}
