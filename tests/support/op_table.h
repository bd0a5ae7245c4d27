#pragma once
// The op table: one row for each differentiable op, and what a row buys.
//
// A row names an op, says how to call it and on which inputs. For that it gets, in
// tests/autograd/op_table_test.cpp: f32 kernels against the f64 loops (values, first and second
// derivatives), every memory layout against the dense one, bf16 and f16 against f32, central
// differences of the first and of the second order, and the same gradient with and without
// create_graph. A test there fails when an op declared in autograd/ops/*.h has no row.

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "support/layouts.h"
#include "tensor/tensor.h"

namespace rondo::test {

/// What an op's input looks like. Values are drawn from [low, high).
struct OpInput {
  Dims shape;
  double low = -1, high = 1;
  /// Evenly spaced in random order instead of independent: no two are closer than the spacing, and
  /// none is nearer than half of it to either end (or, for an even number of them, to the middle).
  /// For ops with kinks and ties, which differences must not straddle.
  bool distinct = false;
};

/// f: one Tensor or several.
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
  std::string name;  // the function, then perhaps a dot and the variant: "conv2d.strided"
  std::vector<OpInput> inputs;
  OpFunction f;
  std::int64_t length = 1;  // terms summed into one element, forward or backward: for tolerances
  double scale = 1;         // size of the intermediate numbers, where it is not that of the results
  bool short_floats = false;  // for a kernel that f64 never takes: no differences, which are f64's
};

/// A constant that an op takes, on the device of its input.
inline Tensor on_device_of(const Tensor& x, const Tensor& constant) {
  return constant.to(x.device());
}

/// What GoogleTest shows of a row.
inline void PrintTo(const Op& op, std::ostream* out) { *out << op.name; }

/// All rows.
const std::vector<Op>& op_table();

/// The parts of the table, one for each group of headers (op_rows_*.cpp).
std::vector<Op> elementwise_rows();  // arithmetic, unary, activation
std::vector<Op> structure_rows();    // reduce, shape, indexing
std::vector<Op> layer_rows();        // matmul, conv, norm, pool, loss

/// The functions declared in autograd/ops/*.h that return a Tensor, operators left out.
std::vector<std::string> declared_ops();

/// The row's inputs as f64, equal for every call, rounded to what `exact_in` can hold.
Tensors inputs_of(const Op& op, DType exact_in);

/// What can be computed from a row: outputs, gradients, and gradients of gradients.
struct Derivatives {
  Tensors outputs, first, second;
};

/// At `inputs` (converted, laid out, moved), weighted with fixed numbers. With create_graph the
/// first derivatives are recorded, and the second ones computed. Results lie on the CPU.
Derivatives derivatives(const Op& op, const Tensors& inputs, DType dtype, Layout layout,
                        bool create_graph, Device device = Device::cpu());

}  // namespace rondo::test
