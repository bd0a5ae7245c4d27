#pragma once
// Locates element i of strided tensors, and reads and writes it for any dtype.
//
// On the CPU a loop moves from one element to the next. Here thread i must locate its element
// directly: it divides i by the sizes, fastest dimension first. Integer division is slow on a GPU,
// so the sizes are `Divisor`s, which multiply and shift (Granlund and Montgomery 1994).

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/collapse.h"
#include "tensor/convert.h"
#include "tensor/cuda/divisor.h"
#include "tensor/cuda/launch.cuh"

namespace rondo::cuda {

/// A tensor's element, given by address and dtype, as the compute type C (float, double, int64_t).
template <class C>
RONDO_HD C load(DType dtype, const char* at) {
  switch (dtype) {
    case DType::f64:
      return convert<C>(*reinterpret_cast<const double*>(at));
    case DType::f32:
      return convert<C>(*reinterpret_cast<const float*>(at));
    case DType::bf16:
      return convert<C>(*reinterpret_cast<const BFloat16*>(at));
    case DType::f16:
      return convert<C>(*reinterpret_cast<const Half*>(at));
    case DType::i64:
      return convert<C>(*reinterpret_cast<const std::int64_t*>(at));
    case DType::i32:
      return convert<C>(*reinterpret_cast<const std::int32_t*>(at));
    case DType::u8:
      return convert<C>(*reinterpret_cast<const std::uint8_t*>(at));
    case DType::i8:
      return convert<C>(*reinterpret_cast<const std::int8_t*>(at));
    case DType::boolean:
      break;
  }
  return convert<C>(*reinterpret_cast<const std::uint8_t*>(at) != 0);  // of from_blob, any byte
}

template <class C>
RONDO_HD void store(DType dtype, char* at, C value) {
  switch (dtype) {
    case DType::f64:
      *reinterpret_cast<double*>(at) = convert<double>(value);
      return;
    case DType::f32:
      *reinterpret_cast<float*>(at) = convert<float>(value);
      return;
    case DType::bf16:
      *reinterpret_cast<BFloat16*>(at) = convert<BFloat16>(value);
      return;
    case DType::f16:
      *reinterpret_cast<Half*>(at) = convert<Half>(value);
      return;
    case DType::i64:
      *reinterpret_cast<std::int64_t*>(at) = convert<std::int64_t>(value);
      return;
    case DType::i32:
      *reinterpret_cast<std::int32_t*>(at) = convert<std::int32_t>(value);
      return;
    case DType::u8:
      *reinterpret_cast<std::uint8_t*>(at) = convert<std::uint8_t>(value);
      return;
    case DType::i8:
      *reinterpret_cast<std::int8_t*>(at) = convert<std::int8_t>(value);
      return;
    case DType::boolean:
      break;
  }
  *reinterpret_cast<bool*>(at) = convert<bool>(value);
}

/// N collapsed tensors, as a kernel's argument.
template <std::size_t N>
struct Operands {
  char* data[N];
  DType dtypes[N];
  int dims;
  Divisor sizes[Collapsed<N>::max_dims];
  std::int64_t steps[Collapsed<N>::max_dims][N];

  Operands(const Collapsed<N>& shape, const std::array<const Tensor*, N>& tensors)
      : dims(static_cast<int>(shape.dims)) {
    for (std::size_t k = 0; k < N; ++k) {
      data[k] = shape.data[k];
      dtypes[k] = tensors[k]->dtype();
    }
    for (std::size_t d = 0; d < shape.dims; ++d) {
      sizes[d] = Divisor(shape.sizes[d]);
      for (std::size_t k = 0; k < N; ++k) steps[d][k] = shape.steps[d][k];
    }
  }

  /// The addresses of element i of each operand.
  struct Addresses {
    char* at[N];
  };
  RONDO_HD Addresses locate(std::int64_t i) const {
    Addresses a;
    for (std::size_t k = 0; k < N; ++k) a.at[k] = data[k];
    for (int d = 0; d < dims; ++d) {
      const std::int64_t rest = d + 1 < dims ? sizes[d].divide(i) : 0;
      const std::int64_t here = i - rest * sizes[d].value();
      for (std::size_t k = 0; k < N; ++k) a.at[k] += here * steps[d][k];
      i = rest;
    }
    return a;
  }
  template <class C>
  RONDO_HD C read(const Addresses& a, std::size_t k) const {
    return load<C>(dtypes[k], a.at[k]);
  }
  template <class C>
  RONDO_HD void write(const Addresses& a, std::size_t k, C value) const {
    store(dtypes[k], a.at[k], value);
  }
};

/// The elements that one access of 16 bytes moves.
template <class T>
struct alignas(16) Pack {
  static constexpr int size = 16 / sizeof(T);
  T values[size];
};

/// *to = pack in the GPU's memory, as a single access: for a plain assignment the compiler often
/// generates one access per element.
template <class P>
RONDO_HD void store_16(void* to, const P& pack) {
  static_assert(sizeof(P) == 16);
#if defined(__CUDA_ARCH__)
  __stwb(static_cast<uint4*>(to), std::bit_cast<uint4>(pack));
#else
  std::memcpy(to, &pack, sizeof pack);
#endif
}

/// V elements of T as stored in memory: V is 1 or the size of a 16-byte pack.
template <class T, int V>
using Raw = std::conditional_t<V == 1, T, Pack<T>>;

template <int V, class T>
RONDO_HD Raw<T, V> load_raw(const T* x, std::int64_t i) {
  return *reinterpret_cast<const Raw<T, V>*>(x + i);
}

/// The same elements as floats for the computation.
template <class T, int V>
struct Values {
  Compute<T> v[V];

  RONDO_HD static Values of(const Raw<T, V>& raw) {
    Values values;
    if constexpr (V == 1) {
      values.v[0] = convert<Compute<T>>(raw);
    } else {
      for (int k = 0; k < V; ++k) values.v[k] = convert<Compute<T>>(raw.values[k]);
    }
    return values;
  }
  RONDO_HD static Values load(const T* x, std::int64_t i) { return of(load_raw<V>(x, i)); }
  RONDO_HD void store(T* y, std::int64_t i) const {
    if constexpr (V == 1) {
      y[i] = convert<T>(v[0]);
    } else {
      Pack<T> pack;
      for (int k = 0; k < V; ++k) pack.values[k] = convert<T>(v[k]);
      store_16(y + i, pack);
    }
  }
};

/// Whether x is aligned for 16-byte accesses.
inline bool is_aligned(const Tensor& x) {
  return !x.defined() || reinterpret_cast<std::uintptr_t>(x.data_ptr()) % 16 == 0;
}

/// Whether an operand is one dense run of `dtype` that 16-byte accesses can read and write.
template <std::size_t N>
bool is_packable(const Collapsed<N>& shape, std::size_t k, const Tensor& tensor, DType dtype) {
  return tensor.dtype() == dtype && shape.dims == 1 && shape.steps[0][k] == size_of(dtype) &&
         reinterpret_cast<std::uintptr_t>(shape.data[k]) % 16 == 0;
}
/// Whether an operand is a single number for all elements.
template <std::size_t N>
bool is_constant(const Collapsed<N>& shape, std::size_t k) {
  return shape.dims == 1 && (shape.steps[0][k] == 0 || shape.numel == 1);
}

}  // namespace rondo::cuda
