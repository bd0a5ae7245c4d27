#pragma once
// How work gets onto the GPU: two shapes of kernel, which every kernel of rondo is one of.
//
//   for_each(device, n, body)             body(i) for i = 0 … n-1, each in a thread of its own
//   for_rows(device, rows, length, body)  body(group, row) for each row, in all threads of a group:
//                                         they share out the row's `length` elements and combine
//                                         what they have found
//
// Bodies are ordinary function objects that know no block and no thread index but what they are
// given. That keeps the arithmetic apart from the machine, and it makes them run on the host as
// well (Note [Kernels on the host] in simulation.h). Builds with sanitizers compile these files as
// plain C++: their kernels run on the host only, and they report that there is no GPU
// (runtime.cpp).

#include <cstdint>

#include "tensor/cuda/simulation.h"
#include "tensor/cuda/stream.h"
#include "tensor/dtype.h"

namespace rondo::cuda {

inline constexpr int threads_per_block = 256;

/// The threads of a block, as a body of for_rows sees them.
struct BlockGroup {
  RONDO_HD int thread() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x);
#else
    return 0;
#endif
  }
  RONDO_HD int size() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(blockDim.x);
#else
    return 1;
#endif
  }
  /// combine(… combine(v0, v1) …) over the values of all threads, to each of them; always in the
  /// same order. T is trivially copyable, of a multiple of 4 bytes. All threads must call it.
  template <class T, class Combine>
  RONDO_HD T reduce(T value, Combine combine) const {
#if defined(__CUDA_ARCH__)
    __shared__ T of_warp[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    value = reduce_warp(value, combine);
    if (lane == 0) of_warp[warp] = value;
    __syncthreads();
    T total = of_warp[0];
    for (int w = 1; w < warps; ++w) total = combine(total, of_warp[w]);
    __syncthreads();  // before the next call writes there
    return total;
#else
    return value;
#endif
  }
  /// The sum of the values of all threads up to this one; `total` becomes that of all. The same
  /// conditions as for reduce.
  template <class T>
  RONDO_HD T scan(T value, T& total) const {
#if defined(__CUDA_ARCH__)
    __shared__ T of_warp[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    for (int distance = 1; distance < 32; distance *= 2) {
      const T before = __shfl_up_sync(0xffffffffu, value, distance);
      if (lane >= distance) value += before;
    }
    if (lane == 31) of_warp[warp] = value;
    __syncthreads();
    total = 0;
    T before = 0;
    for (int w = 0; w < warps; ++w) {
      if (w == warp) before = total;
      total += of_warp[w];
    }
    __syncthreads();  // before the next call writes there
    return before + value;
#else
    total = value;
    return value;
#endif
  }

 private:
#if defined(__CUDA_ARCH__)
  /// Halves of the warp, then quarters, …: five shuffles.
  template <class T, class Combine>
  __device__ static T reduce_warp(T value, Combine combine) {
    static_assert(sizeof(T) % 4 == 0);
    for (int distance = 16; distance > 0; distance /= 2) {
      T other;
      for (unsigned i = 0; i < sizeof(T) / 4; ++i) {
        reinterpret_cast<unsigned*>(&other)[i] =
            __shfl_xor_sync(0xffffffffu, reinterpret_cast<unsigned*>(&value)[i], distance);
      }
      // The lower lane's value is the left one in both, so that both get the same bits.
      value = (threadIdx.x & distance) ? combine(other, value) : combine(value, other);
    }
    return value;
  }
#endif
};

/// The same interface for one thread: a group on the host.
struct LoneThread {
  RONDO_HD int thread() const { return 0; }
  RONDO_HD int size() const { return 1; }
  template <class T, class Combine>
  RONDO_HD T reduce(T value, Combine) const {
    return value;
  }
  template <class T>
  RONDO_HD T scan(T value, T& total) const {
    return total = value;
  }
};

#if defined(__CUDACC__)
namespace detail {

template <class Body>
__global__ void __launch_bounds__(threads_per_block) each_kernel(std::int64_t n, Body body) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n;
       i += step)
    body(i);
}

template <class Body>
__global__ void __launch_bounds__(1024) rows_kernel(std::int64_t rows, Body body) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(BlockGroup{}, row);
}

inline constexpr std::int64_t most_blocks = 0x7fffffff;

}  // namespace detail
#endif

template <class Body>
void for_each(int device, std::int64_t n, const Body& body) {
  if (n <= 0) return;
  if (is_simulated())
    return launch_on_host(device, [=] {
      for (std::int64_t i = 0; i < n; ++i) body(i);
    });
#if defined(__CUDACC__)
  DeviceGuard guard(device);
  const std::int64_t blocks = (n + threads_per_block - 1) / threads_per_block;
  const auto grid =
      static_cast<unsigned>(blocks < detail::most_blocks ? blocks : detail::most_blocks);
  detail::each_kernel<<<grid, threads_per_block, 0, current_stream(device).get()>>>(n, body);
  check(cudaGetLastError());
#endif
}

/// `length`: what there is to share out in a row, which decides how many threads do so.
template <class Body>
void for_rows(int device, std::int64_t rows, [[maybe_unused]] std::int64_t length,
              const Body& body) {
  if (rows <= 0) return;
  if (is_simulated())
    return launch_on_host(device, [=] {
      for (std::int64_t row = 0; row < rows; ++row) body(LoneThread{}, row);
    });
#if defined(__CUDACC__)
  DeviceGuard guard(device);
  const int threads = length <= 64 ? 32 : length <= 512 ? 128 : length <= 8192 ? 256 : 1024;
  const auto grid = static_cast<unsigned>(rows < detail::most_blocks ? rows : detail::most_blocks);
  detail::rows_kernel<<<grid, threads, 0, current_stream(device).get()>>>(rows, body);
  check(cudaGetLastError());
#endif
}

}  // namespace rondo::cuda
