// Overlapping windows of a vector, and a convolution made of them.
//
// start fails: window 1 of size 3 begins with 3 instead of 1
#include <rondo/rondo.h>

#include <iostream>

#include "exercise.h"

namespace rd = rondo;
using rondo::Tensor;

namespace {

void check(const Tensor& x, std::int64_t size, std::int64_t step) {
  const Tensor y = windows(x, size, step);
  rd::require(y.storage() == x.storage(), "the windows have memory of their own");
  const std::int64_t n = (x.numel() - size) / step + 1;
  rd::require(y.dim() == 2 && y.size(0) == n && y.size(1) == size, "the windows have shape ",
              y.shape(), " instead of ", rd::Dims{n, size});
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < size; ++j) {
      const double found = y[i][j].item(), expected = x[i * step + j].item();
      rd::require(found == expected, "window ", i, " of size ", size,
                  j == 0 ? " begins with " : " contains ", found, " instead of ", expected);
    }
  }
}

int run() {
  const Tensor x = rd::arange(12).to(rd::f32);
  // Each window stays inside x for the start, too: the test must not read beyond the memory.
  check(x.narrow(0, 0, 4), 3, 1);
  check(x, 3, 1);
  check(x, 4, 2);
  check(x.narrow(0, 2, 9), 3, 3);  // does not begin at the first element
  check(x.reshape({6, 2}).narrow(1, 1, 1).flatten(), 2, 1);
  const Tensor column = x.reshape({6, 2}).select(1, 1);  // every second element
  check(column, 3, 1);

  // A convolution of one dimension is a product with the windows.
  const Tensor filter = rd::tensor<float>({1, 0, -1});
  const Tensor direct = conv1d(x.reshape({1, 1, 12}), filter.reshape({1, 1, 3})).flatten();
  rd::require(allclose(matmul(windows(x, 3, 1), filter), direct),
              "the product of windows and filter is not the convolution");
  std::cout << "the windows are right, and no element was copied\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
