#pragma once
// y = f(x1, … xN), element by element: the two kernels of every unary and binary op.
//
// The strided kernel accepts any strides and dtypes. It finds each element by division and selects
// the op with a switch, so that there is one kernel for all ops of a compute type: one kernel per
// op would be 200 kernels that take minutes to compile. The wide kernel accepts f32, bf16 or f16
// whose rows are in one piece (or, of an input, one number each, as when a column or a number is
// broadcast) and moves 16 bytes at a time. These ops are limited by memory, and only such wide
// accesses reach its full rate.

#include <utility>

#include "tensor/cuda/packed.cuh"
#include "tensor/cuda/strided.cuh"
#include "tensor/functors.h"

namespace rondo::cuda {

template <class C, class F>
RONDO_HD void visit_op(UnaryOp op, const OpParams& params, const F& f) {
  visit_unary<C>(op, params, f);
}
template <class C, class F>
RONDO_HD void visit_op(BinaryOp op, const OpParams& params, const F& f) {
  visit_binary<C>(op, params, f);
}

// Function objects for visit_op, called with the op's functor. They are not lambdas, since nvcc
// must be able to name them.

/// Used to check whether an op exists for a compute type: visit_op throws if it does not.
struct IsThere {
  template <class F>
  RONDO_HD void operator()(F) const {}
};

/// y = f(x1, … xN) for one element.
template <std::size_t N, class C>
struct OneElement {
  const Operands<N + 1>& operands;
  typename Operands<N + 1>::Addresses at;
  template <class F>
  RONDO_HD void operator()(F f) const {
    map(f, std::make_index_sequence<N>());
  }

 private:
  template <class F, std::size_t... K>
  RONDO_HD void map(F f, std::index_sequence<K...>) const {
    operands.write(at, N, f(operands.template read<C>(at, K)...));
  }
};

/// Op is UnaryOp or BinaryOp.
template <std::size_t N, class C, class Op>
struct StridedMap {
  Operands<N + 1> operands;  // the inputs, then y
  Op op;
  OpParams params;
  RONDO_HD void operator()(std::int64_t i) const {
    visit_op<C>(op, params, OneElement<N, C>{operands, operands.locate(i)});
  }
};

/// Call i processes elements 8 i … 8 i + 7.
template <std::size_t N, class F>
struct PackedMap {
  OctetOperands<N + 1> operands;  // the inputs, then y
  F f;
  RONDO_HD void operator()(std::int64_t i) const { map(8 * i, std::make_index_sequence<N>()); }

 private:
  template <std::size_t... K>
  RONDO_HD void map(std::int64_t first, std::index_sequence<K...>) const {
    const auto at = operands.locate(first);
    const Octet<float> x[N] = {operands.load(at, K, first)...};
    Octet<float> result;
    for (int k = 0; k < 8; ++k) result.values[k] = f(x[K].values[k]...);
    operands.store(at, N, first, result);
  }
};

template <std::size_t N>
struct LaunchPacked {
  int device;
  const OctetOperands<N + 1>& operands;

  template <class F>
  void operator()(F f) const {
    for_each(device, (operands.n + 7) / 8, PackedMap<N, F>{operands, f});
  }
};

/// Uses the wide kernel if possible, and returns whether it was. `tensors`: the inputs, then y.
template <std::size_t N, class Op>
bool map_packed(int device, Op op, const OpParams& params,
                const std::array<const Tensor*, N>& tensors) {
  const auto operands = octets(Collapsed<N>(tensors), tensors, 1);
  if (!operands) return false;
  visit_op<float>(op, params, LaunchPacked<N - 1>{device, *operands});
  return true;
}

/// Uses the strided kernel, which accepts all other tensors.
template <std::size_t N, class Op>
void map_strided(int device, Op op, const OpParams& params,
                 const std::array<const Tensor*, N>& tensors) {
  const Collapsed<N> shape(tensors);
  const bool in_f64 = N == 3 && tensors[1]->dtype() == f64;
  visit_compute_type(in_f64 ? f64 : tensors[0]->dtype(), [&]<class C>() {
    visit_op<C>(op, params, IsThere{});
    for_each(device, shape.numel,
             StridedMap<N - 1, C, Op>{Operands<N>(shape, tensors), op, params});
  });
}

}  // namespace rondo::cuda
