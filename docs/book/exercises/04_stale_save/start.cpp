// An op that keeps its input for backward. It does not notice if the input is overwritten.
#include <rondo/rondo.h>

namespace rd = rondo;
using rondo::Tensor;

namespace {

/// A tensor that backward needs.
class Saved {
 public:
  explicit Saved(const Tensor& x) : x_(x.detach()) {}
  Tensor get() const { return x_; }

 private:
  Tensor x_;
};

struct MySquareBackward final : rd::Node {
  Saved x;
  explicit MySquareBackward(const Tensor& x) : x(x) {}
  const char* name() const override { return "my_square"; }
  rd::Tensors backward(const rd::Tensors& dy) override { return {dy[0] * x.get() * 2.0}; }
};

}  // namespace

Tensor my_square(const Tensor& x) {
  const Tensor y = rd::no_grad([&] { return x * x; });
  return rd::record<MySquareBackward>({x}, y, x);
}
