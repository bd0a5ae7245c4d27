// Which results share the memory of the circle's batch: the place of their first element, and
// strides.
#include <rondo/rondo.h>

#include <iomanip>
#include <iostream>

namespace rd = rondo;
namespace nn = rondo::nn;
using rondo::Tensor;

namespace {
void show(const char* what, const Tensor& y, const Tensor& x);
}  // namespace

int main() {
  rd::manual_seed(1);
  const Tensor x = rd::rand({1000, 2}) * 2.0 - 1.0;  // the points of README's twenty lines
  std::cout << "                            shape       strides\n";
  show("x", x, x);
  show("x.t()", x.t(), x);
  show("x.narrow(0, 2, 4)", x.narrow(0, 2, 4), x);
  show("x.select(1, 1)", x.select(1, 1), x);
  show("x[1].expand({1000, 2})", x[1].expand({1000, 2}), x);
  show("x.reshape({500, 4})", x.reshape({500, 4}), x);
  show("x.t().reshape({4, 500})", x.t().reshape({4, 500}), x);
  show("x.contiguous()", x.contiguous(), x);
  show("x.t().contiguous()", x.t().contiguous(), x);
  show("x.flip(0)", x.flip(0), x);

  const nn::Linear layer(2, 32);
  const Tensor w = layer.weight, b = layer.bias;
  std::cout << "\n";
  show("w", w, w);
  show("w.t().unsqueeze(0)", w.t().unsqueeze(0), w);
  show("b", b, b);
  show("b.expand({1000, 32})", b.expand({1000, 32}), b);

  const Tensor second = x.select(1, 1);
  const auto before = x.version();
  second.zero_();
  std::cout << "\nsecond.zero_() wrote through the view: the sum of |x[:, 1]| is "
            << sum(abs(x.narrow(1, 1, 1))).item() << ";\nthe version of x went from " << before
            << " to " << x.version() << "\n";
}

namespace {

/// Whether y shares the memory of x, and in which byte it then begins.
void show(const char* what, const Tensor& y, const Tensor& x) {
  std::cout << std::left << std::setw(28) << what << std::setw(12) << rd::concat(y.shape())
            << std::setw(12) << rd::concat(y.strides());
  if (y.storage() == x.storage())
    std::cout << "view, byte "
              << static_cast<const char*>(y.data_ptr()) - static_cast<const char*>(x.data_ptr())
              << "\n";
  else
    std::cout << "copy\n";
}

}  // namespace
