// log sum exp(x - m) - (x[target] - m), where m is the largest logit: no exp can overflow, and one
// of them is 1. The sum is in double, so that 1 + 1e-7 is not 1.
#include <algorithm>
#include <cmath>
#include <vector>

float cross_entropy_of(const std::vector<float>& logits, std::size_t target) {
  const float m = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x - m));
  return static_cast<float>(std::log(sum) - (logits[target] - m));
}
