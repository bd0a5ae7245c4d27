// A sum whose additions do not all wait for each other.
//
// start fails: the sum of 100 numbers waits for 100 additions, one after another
#include <rondo/rondo.h>

#include <iostream>
#include <vector>

#include "exercise.h"

namespace rd = rondo;

namespace {

int run() {
  for (const std::int64_t n : {0, 1, 7, 8, 9, 100, 1000, 1003}) {
    std::vector<Number> x(static_cast<std::size_t>(n));
    std::int64_t expected = 0;
    for (std::int64_t i = 0; i < n; ++i) {
      x[static_cast<std::size_t>(i)].value = i * i;
      expected += i * i;
    }
    const Number found = sum(x.data(), n);
    rd::require(found.value == expected, "the sum of ", n, " numbers is ", found.value,
                " instead of ", expected);
    const std::int64_t limit = n / 8 + 5;
    rd::require(n < 100 || found.chain <= limit, "the sum of ", n, " numbers waits for ",
                found.chain, " additions, one after another; the limit is ", limit);
  }
  std::cout << "the sums are right, and at most an eighth of the additions wait for each other\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
