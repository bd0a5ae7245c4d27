// A matrix product whose kernel reads one factor in panels.
//
// start fails: row 0, column 0 of the product of [4, 5] and [5, 16] is
#include <rondo/rondo.h>

#include <cmath>
#include <iostream>
#include <vector>

#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

/// One row of a product with one panel: all sums stay in registers, and the panel is read in order.
void multiply(const float* row, const float* packed, std::int64_t depth, float* sums) {
  float sum[panel] = {};
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t j = 0; j < panel; ++j) sum[j] += row[k] * *packed++;
  for (std::int64_t j = 0; j < panel; ++j) sums[j] = sum[j];
}

void check(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
  const Tensor a = rd::randn({rows, depth}), b = rd::randn({depth, columns});
  const std::int64_t panels = (columns + panel - 1) / panel;
  // A guard behind the room shows writes beyond it.
  std::vector<float> packed(static_cast<std::size_t>(panels * panel * depth + 1), 12345);
  pack(b.data_ptr<float>(), depth, columns, packed.data());
  rd::require(packed.back() == 12345, "pack wrote beyond the ", panels, " panels");
  const std::vector<float> expected = matmul(a, b).to_vector();
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t p = 0; p < panels; ++p) {
      float sums[panel];
      multiply(a.data_ptr<float>() + i * depth, packed.data() + p * panel * depth, depth, sums);
      for (std::int64_t j = 0; j < panel; ++j) {
        const std::int64_t column = p * panel + j;
        const float right =
            column < columns ? expected[static_cast<std::size_t>(i * columns + column)] : 0;
        rd::require(std::abs(sums[j] - right) < 1e-4f, "row ", i, ", column ", column,
                    " of the product of ", a.shape(), " and ", b.shape(), " is ", sums[j],
                    " instead of ", right);
      }
    }
  }
}

int run() {
  rd::manual_seed(1);
  check(4, 5, 16);
  check(4, 5, 8);
  check(3, 7, 21);
  check(1, 1, 1);
  std::cout << "the products are right\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
