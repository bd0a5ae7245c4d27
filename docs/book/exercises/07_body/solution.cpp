// Each body writes one element that no other body reads in the same launch. The end of a launch is
// the only point at which all writes are there.
#include "exercise.h"

void pair_sum(const float* x, std::int64_t n, std::int64_t i, float* out) {
  if (i >= n) return;
  out[i] = i + 1 < n ? x[i] + x[i + 1] : x[i];
}

void first_body(float* x, std::int64_t n, std::int64_t i, float* scratch) {
  pair_sum(x, n, i, scratch);
}

void second_body(float* x, std::int64_t n, std::int64_t i, float* scratch) {
  if (i < n) x[i] = scratch[i];
}
