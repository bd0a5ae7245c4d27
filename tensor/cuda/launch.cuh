#pragma once
// How work is launched on the GPU. Every kernel of rondo has one of three forms:
//
//   for_each(device, n, body)             body(i) for i = 0 … n-1, each in its own thread
//   for_rows(device, rows, length, body)  body(group, row) for each row, in all threads of a group.
//                                         They divide the row's `length` elements and combine their
//                                         results. A group is a warp if rows are short, otherwise a
//                                         block
//   for_blocks(device, blocks, body)      the same in blocks of 256 threads: for bodies that divide
//                                         their work themselves, need more than 64 registers per
//                                         thread, or combine by columns
//
// Bodies are ordinary function objects that know only the block and thread numbers that are passed
// to them. This separates the arithmetic from the machine, and lets bodies run on the host as well
// (Note [Kernels on the host] in simulation.h). Builds with sanitizers compile these files as plain
// C++: their kernels run only on the host, and they report that there is no GPU (runtime.cpp).

#include <cstdint>

#include "tensor/cuda/simulation.h"
#include "tensor/cuda/stream.h"
#include "tensor/dtype.h"

namespace rondo::cuda {

inline constexpr int threads_per_block = 256;

#if defined(__CUDA_ARCH__)
namespace detail {

/// Combines the values of a warp, or of each `width` neighbours in it, in halves, then quarters, …
/// Each thread gets the result.
template <int width = 32, class T, class Combine>
__device__ T reduce_warp(T value, Combine combine) {
  static_assert(sizeof(T) % 4 == 0);
  for (int distance = width / 2; distance > 0; distance /= 2) {
    T other;
    for (unsigned i = 0; i < sizeof(T) / 4; ++i) {
      reinterpret_cast<unsigned*>(&other)[i] =
          __shfl_xor_sync(0xffffffffu, reinterpret_cast<unsigned*>(&value)[i], distance);
    }
    // In both lanes the lower lane's value is the left operand, so that both get the same bits.
    value = (threadIdx.x & distance) ? combine(other, value) : combine(value, other);
  }
  return value;
}

/// The value of the warp's thread `lane`.
template <class T>
__device__ T value_of(T value, int lane) {
  T other;
  for (unsigned i = 0; i < sizeof(T) / 4; ++i)
    reinterpret_cast<unsigned*>(&other)[i] =
        __shfl_sync(0xffffffffu, reinterpret_cast<unsigned*>(&value)[i], lane);
  return other;
}

/// The values of a warp's threads up to and including this one, combined.
template <class T, class Combine>
__device__ T scan_warp(T value, Combine combine) {
  const int lane = threadIdx.x % 32;
  for (int distance = 1; distance < 32; distance *= 2) {
    const T before = value_of(value, lane - distance < 0 ? lane : lane - distance);
    if (lane >= distance) value = combine(before, value);
  }
  return value;
}

}  // namespace detail
#endif

/// The threads of a block, as seen by a body.
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
  /// combine(… combine(v0, v1) …) over the values of all threads, always in the same order. Each
  /// thread gets the result. T must be trivially copyable, with a size that is a multiple of 4
  /// bytes. All threads must call it.
  template <class T, class Combine>
  RONDO_HD T reduce(T value, Combine combine) const {
#if defined(__CUDA_ARCH__)
    __shared__ T of_warp[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    value = detail::reduce_warp(value, combine);
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
  /// For each t < width, combines the values of the threads t, t + width, t + 2 width, …, always in
  /// the same order. Thread t gets the result. Threads from the largest multiple of width on
  /// contribute nothing. Only in for_blocks; otherwise the conditions of reduce apply.
  template <class T, class Combine>
  RONDO_HD T reduce_columns(T value, [[maybe_unused]] int width, Combine combine) const {
#if defined(__CUDA_ARCH__)
    static_assert(sizeof(T) % 4 == 0);
    constexpr int words = sizeof(T) / 4;
    __shared__ unsigned of_thread[words][threads_per_block];  // word by word: no bank conflicts
    const int row = thread() / width;
    for (int rows = size() / width; rows > 1;) {
      const int half = (rows + 1) / 2;  // rows half, half + 1, … are added to rows 0, 1, …
      if (half <= row && row < rows)
        for (int i = 0; i < words; ++i)
          of_thread[i][thread()] = reinterpret_cast<const unsigned*>(&value)[i];
      __syncthreads();
      if (row < rows - half) {
        T other;
        for (int i = 0; i < words; ++i)
          reinterpret_cast<unsigned*>(&other)[i] = of_thread[i][thread() + half * width];
        value = combine(value, other);
      }
      __syncthreads();
      rows = half;
    }
#endif
    return value;
  }
  /// Combines the values of each `width` neighbours: of the threads 0 … width - 1, of the next
  /// `width`, … Each thread gets the result of its neighbours. width is a power of 2, up to 32.
  template <int width, class T, class Combine>
  RONDO_HD T reduce_neighbours(T value, [[maybe_unused]] Combine combine) const {
#if defined(__CUDA_ARCH__)
    value = detail::reduce_warp<width>(value, combine);
#endif
    return value;
  }
  /// A T in the memory that the threads of a block share. T has no constructor; all T together have
  /// at most 48 KiB. Only in for_blocks.
  template <class T>
  RONDO_HD T& shared() const {
#if defined(__CUDA_ARCH__)
    __shared__ T memory;
#else
    static thread_local T memory;
#endif
    return memory;
  }
  /// Waits until all threads of the block are here and see what the others wrote to shared memory.
  RONDO_HD void sync() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
  /// Transposes a tile of 32 x 32 words: thread t provides words (t / 32 + 8 k, t % 32), k < 4, and
  /// gets words (t % 32, t / 32 + 8 k). Only in for_blocks; all threads must call it.
  template <class Word>
  RONDO_HD void transpose([[maybe_unused]] Word (&words)[4]) const {
#if defined(__CUDA_ARCH__)
    __shared__ Word tile[32][33];  // one extra: a column's words are in 32 different banks
    const int column = threadIdx.x % 32, row = threadIdx.x / 32;
    for (int k = 0; k < 4; ++k) tile[row + 8 * k][column] = words[k];
    __syncthreads();
    for (int k = 0; k < 4; ++k) words[k] = tile[column][row + 8 * k];
    __syncthreads();  // before the next call writes there
#endif
  }
  /// Combines the values of all threads up to and including this one; `total` becomes that of all
  /// threads. The conditions of reduce apply.
  template <class T, class Combine>
  RONDO_HD T scan(T value, T& total, [[maybe_unused]] Combine combine) const {
#if defined(__CUDA_ARCH__)
    __shared__ T of_warp[32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    value = detail::scan_warp(value, combine);
    if (lane == 31) of_warp[warp] = value;
    __syncthreads();
    total = of_warp[0];
    T before = total;
    for (int w = 1; w < warps; ++w) {
      if (w == warp) before = total;
      total = combine(total, of_warp[w]);
    }
    __syncthreads();  // before the next call writes there
    return warp == 0 ? value : combine(before, value);
#else
    total = value;
    return value;
#endif
  }
};

/// The same for the 32 threads of a warp, which do not need to wait for each other.
struct WarpGroup {
  RONDO_HD int thread() const {
#if defined(__CUDA_ARCH__)
    return static_cast<int>(threadIdx.x % 32);
#else
    return 0;
#endif
  }
  RONDO_HD int size() const { return 32; }
  template <class T, class Combine>
  RONDO_HD T reduce(T value, [[maybe_unused]] Combine combine) const {
#if defined(__CUDA_ARCH__)
    value = detail::reduce_warp(value, combine);
#endif
    return value;
  }
  template <class T, class Combine>
  RONDO_HD T scan(T value, T& total, [[maybe_unused]] Combine combine) const {
#if defined(__CUDA_ARCH__)
    value = detail::scan_warp(value, combine);
    total = detail::value_of(value, 31);
#else
    total = value;
#endif
    return value;
  }
};

/// The same interface for a single thread: a group on the host.
struct LoneThread {
  RONDO_HD int thread() const { return 0; }
  RONDO_HD int size() const { return 1; }
  template <class T, class Combine>
  RONDO_HD T reduce(T value, Combine) const {
    return value;
  }
  template <class T, class Combine>
  RONDO_HD T reduce_columns(T value, int, Combine) const {
    return value;
  }
  template <int, class T, class Combine>
  RONDO_HD T reduce_neighbours(T value, Combine) const {
    return value;
  }
  template <class T>
  RONDO_HD T& shared() const {
    return BlockGroup{}.shared<T>();
  }
  RONDO_HD void sync() const {}
  template <class Word>
  RONDO_HD void transpose(Word (&)[4]) const {}
  template <class T, class Combine>
  RONDO_HD T scan(T value, T& total, Combine) const {
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
__global__ void __launch_bounds__(threads_per_block)
    short_rows_kernel(std::int64_t rows, Body body) {
  constexpr int warps = threads_per_block / 32;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * warps;
  for (std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * warps + threadIdx.x / 32;
       row < rows; row += step)
    body(WarpGroup{}, row);
}

template <class Body>
__global__ void __launch_bounds__(1024) rows_kernel(std::int64_t rows, Body body) {
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) body(BlockGroup{}, row);
}

/// At most 128 registers per thread, for two blocks per multiprocessor.
template <class Body>
__global__ void __launch_bounds__(threads_per_block, 2)
    blocks_kernel(std::int64_t blocks, Body body) {
  for (std::int64_t i = blockIdx.x; i < blocks; i += gridDim.x) body(BlockGroup{}, i);
}

inline constexpr std::int64_t most_blocks = 0x7fffffff;

}  // namespace detail
#endif

template <class Body>
void for_each(int device, std::int64_t n, const Body& body) {
  if (n <= 0) return;
  if (runs_loops()) return launch_on_host(device, [=] { in_host_order(n, body); });
#if defined(__CUDACC__)
  DeviceGuard guard(device);
  const std::int64_t blocks = (n + threads_per_block - 1) / threads_per_block;
  const auto grid =
      static_cast<unsigned>(blocks < detail::most_blocks ? blocks : detail::most_blocks);
  detail::each_kernel<<<grid, threads_per_block, 0, current_stream(device).get()>>>(n, body);
  check(cudaGetLastError());
#endif
}

/// `length` is the number of elements of a row; it decides how many threads process a row.
template <class Body>
void for_rows(int device, std::int64_t rows, [[maybe_unused]] std::int64_t length,
              const Body& body) {
  if (rows <= 0) return;
  if (runs_loops())
    return launch_on_host(
        device, [=] { in_host_order(rows, [&](std::int64_t row) { body(LoneThread{}, row); }); });
#if defined(__CUDACC__)
  DeviceGuard guard(device);
  constexpr std::int64_t warps = threads_per_block / 32;
  // If there are few rows and they are not very short, each row gets a whole block.
  const bool short_rows = length <= 64 || (length <= 1024 && rows >= 1024);
  const std::int64_t blocks = short_rows ? (rows + warps - 1) / warps : rows;
  const auto grid =
      static_cast<unsigned>(blocks < detail::most_blocks ? blocks : detail::most_blocks);
  const cudaStream_t stream = current_stream(device).get();
  if (short_rows) {
    detail::short_rows_kernel<<<grid, threads_per_block, 0, stream>>>(rows, body);
  } else {
    detail::rows_kernel<<<grid, length <= 8192 ? 256 : 1024, 0, stream>>>(rows, body);
  }
  check(cudaGetLastError());
#endif
}

template <class Body>
void for_blocks(int device, std::int64_t blocks, const Body& body) {
  if (blocks <= 0) return;
  if (runs_loops())
    return launch_on_host(
        device, [=] { in_host_order(blocks, [&](std::int64_t i) { body(LoneThread{}, i); }); });
#if defined(__CUDACC__)
  DeviceGuard guard(device);
  const auto grid =
      static_cast<unsigned>(blocks < detail::most_blocks ? blocks : detail::most_blocks);
  detail::blocks_kernel<<<grid, threads_per_block, 0, current_stream(device).get()>>>(blocks, body);
  check(cudaGetLastError());
#endif
}

}  // namespace rondo::cuda
