#pragma once
// What start.cpp and solution.cpp define, and the numbers that they add.

#include <algorithm>
#include <cstdint>

/// A number that knows how long a processor must wait for it: the longest chain of additions that
/// led to it, each of which needed the result of the previous one.
struct Number {
  std::int64_t value = 0;
  std::int64_t chain = 0;
};
inline Number operator+(Number a, Number b) {
  return {a.value + b.value, std::max(a.chain, b.chain) + 1};
}

/// x[0] + … + x[n - 1].
Number sum(const Number* x, std::int64_t n);
