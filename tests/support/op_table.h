#pragma once
// The op table: one row for each differentiable op, and the tests that a row gives.
//
// A row contains an op's name, its function and its inputs. tests/autograd/op_table_test.cpp then
// tests: f32 kernels against the f64 loops (values, first and second derivatives), every memory
// layout against the dense one, bf16 and f16 against f32, central differences of the first and
// second order, and equal gradients with and without create_graph. A test there fails if an op
// declared in autograd/ops/*.h has no row.

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/layouts.h"
#include "tensor/tensor.h"

namespace rondo::test {

/// An op's input. Values are drawn from [low, high).
struct OpInput {
  Dims shape;
  double low = -1, high = 1;
  /// Evenly spaced in random order instead of independent. No two values are closer than the
  /// spacing, and none is closer than half of it to either end (or, for an even number of values,
  /// to the middle). For ops with kinks and ties, which finite differences must not cross.
  bool distinct = false;
};

/// f returns one Tensor or several.
class OpFunction {
 public:
  template <class F>
  OpFunction(F f) {
    if constexpr (std::is_same_v<std::invoke_result_t<F, const Tensors&>, Tensor>) {
      run_ = [f](const Tensors& x) { return Tensors{f(x)}; };
    } else {
      run_ = f;
    }
  }
  Tensors operator()(const Tensors& x) const { return run_(x); }

 private:
  std::function<Tensors(const Tensors&)> run_;
};

struct Op {
  std::string name;  // the function, then optionally a dot and the variant: "conv2d.strided"
  std::vector<OpInput> inputs;
  OpFunction f;
  std::int64_t length = 1;    // terms summed into one element, forward or backward: for tolerances
  double scale = 1;           // size of the intermediate numbers, if it differs from the results'
  bool short_floats = false;  // for a kernel that f64 never uses: no differences, which need f64
};

/// A constant argument of an op, on the device of its input.
inline Tensor on_device_of(const Tensor& x, const Tensor& constant) {
  return x.defined() ? constant.to(x.device()) : constant;
}

/// The text that GoogleTest prints for a row.
inline void PrintTo(const Op& op, std::ostream* out) { *out << op.name; }

/// All rows.
const std::vector<Op>& op_table();

/// The parts of the table, one for each group of headers (op_rows_*.cpp).
std::vector<Op> elementwise_rows();  // arithmetic, unary, activation
std::vector<Op> structure_rows();    // reduce, shape, indexing
std::vector<Op> index_rows();        // scatter, subscript, scan, search, interpolate, …
std::vector<Op> layer_rows();        // matmul, conv, norm, pool, loss
std::vector<Op> composed_rows();     // what autograd/ops/composed_*.cpp defines for other headers

/// The functions declared in autograd/ops/*.h that return a Tensor, except operators.
std::vector<std::string> declared_ops();

/// The row's inputs as f64, equal in every call, rounded to values that `exact_in` can represent.
Tensors inputs_of(const Op& op, DType exact_in);

/// The results of a row: outputs, gradients, and gradients of gradients.
struct Derivatives {
  Tensors outputs, first, second;
};

/// At `inputs` (converted, laid out, moved), weighted with fixed numbers. With create_graph the
/// first derivatives are recorded, and the second ones computed. Results are on the CPU.
Derivatives derivatives(const Op& op, const Tensors& inputs, DType dtype, Layout layout,
                        bool create_graph, Device device = Device::cpu());

}  // namespace rondo::test
