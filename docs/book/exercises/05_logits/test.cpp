// The cross-entropy of one sample, for logits of any size.
//
// start fails: the loss of the logits 1000, 0 is nan instead of 0
#include <rondo/rondo.h>

#include <cmath>
#include <iostream>
#include <vector>

namespace rd = rondo;

/// -log softmax(logits)[target].
float cross_entropy_of(const std::vector<float>& logits, std::size_t target);

namespace {

void check(const std::vector<float>& logits, std::size_t target) {
  const rd::Tensor x = rd::tensor(logits).reshape({1, -1});
  const rd::Tensor y = rd::tensor<std::int64_t>({static_cast<std::int64_t>(target)});
  const float expected = cross_entropy(x, y).item<float>();
  const float found = cross_entropy_of(logits, target);
  rd::require(std::abs(found - expected) <= 1e-5f * (1 + std::abs(expected)),
              "the loss of the logits ", logits[0], ", ", logits[1], " is ",
              std::isnan(found) ? std::abs(found) : found, " instead of ", expected);
}

int run() {
  check({0.5f, -0.5f}, 0);
  check({1, 2, 3}, 2);
  check({1000, 0}, 0);
  check({1000, 0}, 1);
  check({-1000, -1001}, 0);
  check({-1000, -1001, -999}, 1);
  // The loss of a model that is almost sure is small, but not 0.
  const float found = cross_entropy_of({16, 0, 0}, 0);
  rd::require(found > 0, "the loss of the logits 16, 0, 0 is ", found, " instead of about 2.3e-07");
  std::cout << "the loss is finite for all logits\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
