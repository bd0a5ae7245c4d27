// The formula as it is in books.
#include <cmath>
#include <vector>

float cross_entropy_of(const std::vector<float>& logits, std::size_t target) {
  float sum = 0;
  for (const float x : logits) sum += std::exp(x);
  const float probability = std::exp(logits[target]) / sum;
  return -std::log(probability);
}
