// Bodies that believe that i is below n, and that body(i) runs before body(i + 1).
#include "exercise.h"

void pair_sum(const float* x, std::int64_t n, std::int64_t i, float* out) {
  out[i] = i + 1 < n ? x[i] + x[i + 1] : x[i];
}

void first_body(float* x, std::int64_t n, std::int64_t i, float*) {
  if (i + 1 < n) x[i] += x[i + 1];
}

void second_body(float*, std::int64_t, std::int64_t, float*) {}
