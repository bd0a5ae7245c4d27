// A kernel as a body(i), run as a GPU might run it.
//
// start fails: pair_sum: a body wrote beyond the 1000 elements
#include <rondo/rondo.h>

#include <algorithm>
#include <iostream>
#include <numeric>
#include <random>
#include <vector>

#include "exercise.h"

namespace rd = rondo;

namespace {

std::minstd_rand order(1);

/// Calls body(i) for i = 0 … n-1, and for the rest of the last block of 256, in a random order.
template <class Body>
void launch(std::int64_t n, Body body) {
  std::vector<std::int64_t> all(static_cast<std::size_t>((n + 255) / 256 * 256));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  std::ranges::shuffle(all, order);
  for (const std::int64_t i : all) body(i);
}

/// n elements, and a guard of one block behind them.
std::vector<float> guarded(std::int64_t n, float guard = -1) {
  std::vector<float> x(static_cast<std::size_t>(n + 256), guard);
  for (std::int64_t i = 0; i < n; ++i) x[static_cast<std::size_t>(i)] = static_cast<float>(i * i);
  return x;
}

void check(const char* what, std::int64_t n, const std::vector<float>& found) {
  for (std::int64_t i = n; i < n + 256; ++i)
    rd::require(found[static_cast<std::size_t>(i)] == -1, what, ": a body wrote beyond the ", n,
                " elements");
  for (std::int64_t i = 0; i < n; ++i) {
    const auto mine = static_cast<float>(i * i), next = static_cast<float>((i + 1) * (i + 1));
    const float expected = i + 1 < n ? mine + next : mine;
    rd::require(found[static_cast<std::size_t>(i)] == expected, what, ": element ", i, " of ", n,
                " is ", found[static_cast<std::size_t>(i)], " instead of ", expected);
  }
}

int run() {
  for (const std::int64_t n : {1000, 256, 1}) {
    const std::vector<float> x = guarded(n, 7);
    std::vector<float> out(x.size(), -1);
    launch(n, [&](std::int64_t i) { pair_sum(x.data(), n, i, out.data()); });
    check("pair_sum", n, out);

    std::vector<float> in_place = guarded(n), scratch(x.size(), -1);
    launch(n, [&](std::int64_t i) { first_body(in_place.data(), n, i, scratch.data()); });
    launch(n, [&](std::int64_t i) { second_body(in_place.data(), n, i, scratch.data()); });
    check("in place", n, in_place);
  }
  std::cout << "the bodies may run in any order\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
