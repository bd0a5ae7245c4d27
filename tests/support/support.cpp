#include "support/support.h"

#include <cmath>

#include "tensor/backend.h"

namespace rondo::test {

double tolerance(DType dtype, std::int64_t length, double scale) {
  double eps = dtype == f64 ? 0x1p-52 : dtype == f32 ? 0x1p-23 : dtype == f16 ? 0x1p-10 : 0x1p-7;
  return 4 * eps * std::sqrt(static_cast<double>(std::max<std::int64_t>(length, 1))) * scale;
}

::testing::AssertionResult all_close(const Tensor& a, const Tensor& b, double atol, double rtol) {
  if (!(a.shape() == b.shape()) || a.dtype() != b.dtype()) {
    return ::testing::AssertionFailure()
           << a.dtype() << a.shape() << " against " << b.dtype() << b.shape();
  }
  auto va = a.to_vector<double>(), vb = b.to_vector<double>();
  for (std::size_t i = 0; i < va.size(); ++i) {
    if (std::isnan(va[i]) && std::isnan(vb[i])) continue;
    if (va[i] == vb[i]) continue;
    if (!(std::abs(va[i] - vb[i]) <= atol + rtol * std::abs(vb[i]))) {
      return ::testing::AssertionFailure()
             << "element " << i << " of " << a.shape() << ": " << va[i] << " against " << vb[i]
             << ", tolerance " << atol + rtol * std::abs(vb[i]);
    }
  }
  return ::testing::AssertionSuccess();
}

Tensor as(const Tensor& x, DType dtype, MemoryFormat format) {
  Tensor y = Tensor::empty(x.shape(), {.dtype = dtype, .format = format});
  backend(x).copy(x, y);
  return y;
}

Tensor leaf(const std::vector<double>& values) { return tensor(values).requires_grad_(); }

::testing::AssertionResult identical(const Tensor& a, const Tensor& b) {
  return all_close(a, b, 0, 0);
}

::testing::AssertionResult says(std::string_view message, std::string_view text) {
  if (message.find(text) != std::string_view::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "the message is \"" << message << "\", which does not contain \"" << text << "\"";
}

}  // namespace rondo::test
