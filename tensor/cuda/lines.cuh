#pragma once
// Lines<N>: the elements of N tensors along one dimension, at every position of the other
// dimensions. The shapes of the tensors are equal except along that dimension.

#include "tensor/cuda/launch.cuh"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {

/// x reduced to its first element along `dim`; a 0-dim tensor stays unchanged.
inline Tensor without_length(const Tensor& x, std::int64_t dim) {
  if (x.dim() == 0) return x;
  Dims sizes = x.shape();
  sizes[dim] = 1;
  return x.as_view(sizes, x.strides(), x.storage_offset());
}
inline std::int64_t size_along(const Tensor& x, std::int64_t dim) {
  return x.dim() == 0 ? 1 : x.shape()[dim];
}
inline std::int64_t bytes_along(const Tensor& x, std::int64_t dim) {
  return (x.dim() == 0 ? 1 : x.strides()[dim]) * size_of(x.dtype());
}

/// Calls body(group, line) for each line. If a line is contiguous, the threads of a group divide
/// it. If there are many lines that are not contiguous (the classes of a pixel, planes outermost),
/// each thread takes one line, since neighbouring lines are contiguous in that case.
template <class Body>
void for_lines(int device, std::int64_t lines, std::int64_t length, bool side_by_side,
               const Body& body) {
  constexpr std::int64_t enough_lines = 8192;
  if (side_by_side || lines < enough_lines) return for_rows(device, lines, length, body);
  for_each(device, lines, [=] RONDO_HD(std::int64_t line) { body(LoneThread{}, line); });
}

template <std::size_t N>
struct Lines {
  std::int64_t count = 0;  // number of lines
  std::int64_t steps[N];   // bytes from one element of a line to the next
  Operands<N> starts;      // element i is the first element of line i

  /// Whether the elements of the first tensor's lines are contiguous.
  bool side_by_side() const { return steps[0] == size_of(starts.dtypes[0]); }

  Lines(std::int64_t dim, const std::array<const Tensor*, N>& tensors)
      : Lines(dim, tensors, first_of(dim, tensors)) {}

 private:
  Lines(std::int64_t dim, const std::array<const Tensor*, N>& tensors,
        const std::array<Tensor, N>& first)
      : starts(Collapsed<N>(pointers(first)), pointers(first)) {
    count = first[0].numel();
    for (std::size_t k = 0; k < N; ++k) steps[k] = bytes_along(*tensors[k], dim);
  }
  static std::array<Tensor, N> first_of(std::int64_t dim,
                                        const std::array<const Tensor*, N>& tensors) {
    std::array<Tensor, N> first;
    const Dims sizes = without_length(*tensors[0], dim).shape();
    // All have the size of the first tensor: an index may be smaller than the tensor it points
    // into.
    for (std::size_t k = 0; k < N; ++k)
      first[k] = tensors[k]->as_view(sizes, tensors[k]->strides(), tensors[k]->storage_offset());
    return first;
  }
  static std::array<const Tensor*, N> pointers(const std::array<Tensor, N>& tensors) {
    std::array<const Tensor*, N> p;
    for (std::size_t k = 0; k < N; ++k) p[k] = &tensors[k];
    return p;
  }
};

/// One tensor of a line: element i in the compute type C, or, with 16-byte packs of T, pack i.
template <class C, class T>
struct Run {
  static constexpr bool packed = !std::is_void_v<T>;
  using Element = std::conditional_t<packed, T, float>;
  static constexpr int width = packed ? Pack<Element>::size : 1;
  char* data;
  DType dtype;
  std::int64_t step;

  template <std::size_t N>
  RONDO_HD Run(const Lines<N>& lines, const typename Operands<N>::Addresses& at, std::size_t k)
      : data(at.at[k]), dtype(lines.starts.dtypes[k]), step(lines.steps[k]) {}

  struct Numbers {
    C v[width];
  };
  RONDO_HD Numbers load(std::int64_t i) const {
    Numbers numbers;
    if constexpr (packed) {
      const auto pack = *(reinterpret_cast<const Pack<Element>*>(data) + i);
      for (int k = 0; k < width; ++k) numbers.v[k] = convert<C>(pack.values[k]);
    } else {
      numbers.v[0] = cuda::load<C>(dtype, data + i * step);
    }
    return numbers;
  }
  RONDO_HD void store(std::int64_t i, const Numbers& numbers) const {
    if constexpr (packed) {
      Pack<Element> pack;
      for (int k = 0; k < width; ++k) pack.values[k] = convert<Element>(numbers.v[k]);
      store_16(data + i * 16, pack);
    } else {
      cuda::store(dtype, data + i * step, numbers.v[0]);
    }
  }
};

/// Calls f.operator()<C, T>() with the types for Run of the first `runs` tensors of `lines`. T is a
/// pack's element type if they are dense lines of the same f32, bf16 or f16.
template <std::size_t N, class F>
void visit_runs(const char* op, const Lines<N>& lines, std::size_t runs, std::int64_t length,
                F&& f) {
  const DType dtype = lines.starts.dtypes[0];
  bool packed = is_floating(dtype) && dtype != f64 && length * size_of(dtype) % 16 == 0;
  for (std::size_t k = 0; k < runs; ++k) {
    packed = packed && lines.starts.dtypes[k] == dtype && lines.steps[k] == size_of(dtype) &&
             reinterpret_cast<std::uintptr_t>(lines.starts.data[k]) % 16 == 0;
    for (int d = 0; d < lines.starts.dims; ++d)
      packed = packed && lines.starts.steps[d][k] % 16 == 0;
  }
  if (!packed)
    return visit_float_compute(dtype, op, [&]<class C>() { f.template operator()<C, void>(); });
  if (dtype == f32) return f.template operator()<float, float>();
  if (dtype == bf16) return f.template operator()<float, BFloat16>();
  f.template operator()<float, Half>();
}

/// Calls body(group, line) for each line, whose Runs have types C and T. Packed lines are dense, so
/// their elements are contiguous.
template <class C, class T, std::size_t N, class Body>
void for_runs(int device, const Lines<N>& lines, std::int64_t length, const Body& body) {
  if constexpr (Run<C, T>::packed) {
    for_rows(device, lines.count, length / Run<C, T>::width, body);
  } else {
    for_lines(device, lines.count, length, lines.side_by_side(), body);
  }
}

}  // namespace rondo::cuda
