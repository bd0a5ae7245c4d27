// Fill and copy: within a device (any dtypes and strides), and between devices and the host.
//
// Only dense runs of one dtype can be transferred between memories. Other tensors are made dense at
// the source, and spread out at the destination.

#include <cstring>
#include <mutex>
#include <set>
#include <tuple>

#include "tensor/cuda/allocator.h"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/cuda/index_check.h"
#include "tensor/cuda/strided.cuh"

namespace rondo::cuda {
namespace {

template <class C>
struct Fill {
  Operands<1> operands;
  C value;
  RONDO_HD void operator()(std::int64_t i) const { operands.write(operands.locate(i), 0, value); }
};

/// A dense run of words of the element's size: fill and copy do not need to interpret them.
template <class Word>
struct FillWords {
  Word* y;
  Word value;
  std::int64_t n;
  RONDO_HD void operator()(std::int64_t i) const {
    constexpr int size = Pack<Word>::size;
    const std::int64_t first = i * size;
    if (first + size > n) {
      for (std::int64_t k = first; k < n; ++k) y[k] = value;
      return;
    }
    Pack<Word> pack;
    for (int k = 0; k < size; ++k) pack.values[k] = value;
    store_16(y + first, pack);
  }
};

template <class C>
struct Convert {
  Operands<2> operands;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    operands.write(at, 1, operands.template read<C>(at, 0));
  }
};

template <class Word>
struct Move {
  Operands<2> operands;
  RONDO_HD void operator()(std::int64_t i) const {
    const auto at = operands.locate(i);
    *reinterpret_cast<Word*>(at.at[1]) = *reinterpret_cast<const Word*>(at.at[0]);
  }
};

/// Copies between tensors that are contiguous along different dimensions, in tiles of 32 x 32, so
/// that both are read and written along their contiguous dimensions.
template <class Word>
struct MoveTiles {
  Operands<2> outer;                   // all other dimensions; their operands' first words
  std::int64_t columns, rows;          // of y: along its contiguous dimension, and along x's
  std::int64_t tiles_across, tiles;    // of one matrix
  std::int64_t column_step, row_step;  // bytes: x's along columns, y's along rows

  template <class Group>
  RONDO_HD void operator()(const Group& group, std::int64_t block) const {
    const std::int64_t matrix = block / tiles, tile = block - matrix * tiles,
                       first_row = tile / tiles_across * 32,
                       first_column = (tile - tile / tiles_across * tiles_across) * 32;
    const auto at = outer.locate(matrix);
    const auto from = [&](std::int64_t row, std::int64_t column) {
      return reinterpret_cast<const Word*>(at.at[0] + column * column_step) + row;
    };
    const auto to = [&](std::int64_t row, std::int64_t column) {
      return reinterpret_cast<Word*>(at.at[1] + row * row_step) + column;
    };
    if (group.size() == 1) {  // on the host, where no tile is shared
      for (std::int64_t r = first_row; r < rows && r < first_row + 32; ++r)
        for (std::int64_t c = first_column; c < columns && c < first_column + 32; ++c)
          *to(r, c) = *from(r, c);
      return;
    }
    const int along = group.thread() % 32, across = group.thread() / 32;
    Word words[4] = {};
    for (int k = 0; k < 4; ++k) {
      const std::int64_t r = first_row + along, c = first_column + across + 8 * k;
      if (r < rows && c < columns) words[k] = *from(r, c);
    }
    group.transpose(words);
    for (int k = 0; k < 4; ++k) {
      const std::int64_t r = first_row + across + 8 * k, c = first_column + along;
      if (r < rows && c < columns) *to(r, c) = words[k];
    }
  }
};

/// 16 bytes of any content.
struct alignas(16) Sixteen {
  std::uint64_t words[2];
};

/// Converts four elements of a dense run from one float type to another.
template <class From, class To>
struct ConvertDense {
  const From* x;
  To* y;
  std::int64_t n;
  RONDO_HD void operator()(std::int64_t i) const {
    const std::int64_t first = i * 4, last = first + 4 < n ? first + 4 : n;
    if (last - first < 4) {
      for (std::int64_t k = first; k < last; ++k) y[k] = convert<To>(x[k]);
      return;
    }
    struct alignas(4 * sizeof(From)) Four {
      From values[4];
    };
    struct alignas(4 * sizeof(To)) Result {
      To values[4];
    } result;
    const Four four = *reinterpret_cast<const Four*>(x + first);
    for (int k = 0; k < 4; ++k) result.values[k] = convert<To>(four.values[k]);
    *reinterpret_cast<Result*>(y + first) = result;
  }
};

bool is_dense_run(const Collapsed<2>& shape, const Tensor& x, const Tensor& y) {
  return shape.dims == 1 && (shape.numel == 1 || (shape.steps[0][0] == size_of(x.dtype()) &&
                                                  shape.steps[0][1] == size_of(y.dtype())));
}

void copy_bytes(int device, const void* from, void* to, std::int64_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0) return;
  DeviceGuard guard(device);
  check(cudart().memcpy_async(to, from, static_cast<std::size_t>(bytes), kind,
                              current_stream(device).get()));
}

template <class From, class To>
bool convert_dense(int device, const Collapsed<2>& shape, const Tensor& x, const Tensor& y) {
  if (x.dtype() != dtype_of<From> || y.dtype() != dtype_of<To>) return false;
  auto aligned = [&](std::size_t k) {
    return reinterpret_cast<std::uintptr_t>(shape.data[k]) % 16 == 0;
  };
  if (!aligned(0) || !aligned(1)) return false;
  for_each(device, (shape.numel + 3) / 4,
           ConvertDense<From, To>{static_cast<const From*>(x.data_ptr()),
                                  static_cast<To*>(y.data_ptr()), shape.numel});
  return true;
}

/// Widens the words of the copy to 16, 8 or 4 bytes if both sides are contiguous along the same
/// dimension. Returns the new word size.
std::int64_t widen(Collapsed<2>& shape, std::int64_t size) {
  if (shape.steps[0][0] != size || shape.steps[0][1] != size) return size;
  for (std::int64_t wide : {16, 8, 4}) {
    bool fits = wide > size && shape.sizes[0] * size % wide == 0;
    for (std::size_t k = 0; k < 2; ++k) {
      fits = fits && reinterpret_cast<std::uintptr_t>(shape.data[k]) % wide == 0;
      for (std::size_t d = 1; d < shape.dims; ++d) fits = fits && shape.steps[d][k] % wide == 0;
    }
    if (!fits) continue;
    shape.sizes[0] /= wide / size;
    shape.numel /= wide / size;
    shape.steps[0] = {wide, wide};
    return wide;
  }
  return size;
}

/// Copies with tiles if the two sides are contiguous along different dimensions, and returns
/// whether they are.
template <class Word>
bool move_tiles(int device, const Collapsed<2>& shape,
                const std::array<const Tensor*, 2>& tensors) {
  constexpr std::int64_t size = sizeof(Word), shortest = 8;
  std::size_t run = 1;  // the dimension along which x is contiguous
  while (run < shape.dims && shape.steps[run][0] != size) ++run;
  if (run >= shape.dims || shape.steps[0][1] != size || shape.sizes[0] < shortest ||
      shape.sizes[run] < shortest)
    return false;
  Collapsed<2> outer = shape;
  outer.dims = 0;
  for (std::size_t d = 1; d < shape.dims; ++d) {
    if (d == run) continue;
    outer.sizes[outer.dims] = shape.sizes[d];
    outer.steps[outer.dims++] = shape.steps[d];
  }
  const std::int64_t columns = shape.sizes[0], rows = shape.sizes[run],
                     across = (columns + 31) / 32, tiles = across * ((rows + 31) / 32);
  for_blocks(device, shape.numel / (columns * rows) * tiles,
             MoveTiles<Word>{Operands<2>(outer, tensors), columns, rows, across, tiles,
                             shape.steps[0][0], shape.steps[run][1]});
  return true;
}

/// Copies within one device.
void copy_here(int device, const Tensor& x, const Tensor& y) {
  const std::array<const Tensor*, 2> tensors = {&x, &y};
  Collapsed<2> shape(tensors);
  const bool same = x.dtype() == y.dtype(), dense = is_dense_run(shape, x, y);
  if (same && dense)
    return copy_bytes(device, shape.data[0], shape.data[1], y.nbytes(), cudaMemcpyDeviceToDevice);
  if (dense && (convert_dense<float, BFloat16>(device, shape, x, y) ||
                convert_dense<BFloat16, float>(device, shape, x, y) ||
                convert_dense<float, Half>(device, shape, x, y) ||
                convert_dense<Half, float>(device, shape, x, y) ||
                convert_dense<std::uint8_t, float>(device, shape, x, y)))
    return;
  if (same) {
    const std::int64_t size = widen(shape, size_of(x.dtype()));
    const Operands<2> operands(shape, tensors);
    if (size == 16) return for_each(device, shape.numel, Move<Sixteen>{operands});
    auto move = [&]<class Word>() {
      if (!move_tiles<Word>(device, shape, tensors))
        for_each(device, shape.numel, Move<Word>{operands});
    };
    if (size == 8) return move.template operator()<std::uint64_t>();
    if (size == 4) return move.template operator()<std::uint32_t>();
    visit_word(x.dtype(), move);
    return;
  }
  const Operands<2> operands(shape, tensors);
  visit_compute_type(conversion_dtype(x.dtype(), y.dtype()),
                     [&]<class C>() { for_each(device, shape.numel, Convert<C>{operands}); });
}

/// x as a dense run of y's dtype in the order of y's memory, on x's device.
Tensor prepared(const Tensor& x, const Tensor& y) {
  if (x.dtype() == y.dtype() && x.strides() == y.strides() && x.is_contiguous(x.suggested_format()))
    return x;
  const MemoryFormat format = y.suggested_format();
  Tensor dense =
      Tensor::empty(x.shape(), {.dtype = y.dtype(), .device = x.device(), .format = format});
  backend(x).copy(x, dense);
  return dense;
}

}  // namespace

void CudaBackend::do_fill(const Tensor& y, Scalar value) {
  const std::array<const Tensor*, 1> tensors = {&y};
  const Collapsed<1> shape(tensors);
  visit_dtype(y.dtype(), [&]<class T>() {
    const T element = value.cast<T>();
    visit_word(y.dtype(), [&]<class Word>() {
      if constexpr (sizeof(Word) == sizeof(T)) {
        if (shape.dims == 1 && (shape.numel == 1 || shape.steps[0][0] == sizeof(T)) &&
            reinterpret_cast<std::uintptr_t>(shape.data[0]) % 16 == 0) {
          constexpr std::int64_t size = Pack<Word>::size;
          for_each(device_, (shape.numel + size - 1) / size,
                   FillWords<Word>{reinterpret_cast<Word*>(shape.data[0]),
                                   std::bit_cast<Word>(element), shape.numel});
          return;
        }
        visit_compute_type(y.dtype(), [&]<class C>() {
          for_each(device_, shape.numel, Fill<C>{Operands<1>(shape, tensors), convert<C>(element)});
        });
      }
    });
  });
}

void CudaBackend::do_copy(const Tensor& x, const Tensor& y) {
  if (x.numel() == 0) return;
  if (x.device() == y.device()) return copy_here(device_, x, y);
  if (x.device().is_cpu() || y.device().is_cpu())
    refuse_host_in_capture();  // a graph would keep an address that is invalid by then
  const Tensor from = prepared(x, y);
  const bool spread = !y.is_contiguous(from.suggested_format());
  Tensor to = spread ? Tensor::empty(y.shape(), {.dtype = y.dtype(),
                                                 .device = y.device(),
                                                 .format = from.suggested_format()})
                     : y;
  if (x.device().is_cpu()) {
    // For ordinary memory the call returns after the bytes have been copied.
    copy_bytes(device_, from.data_ptr(), to.data_ptr(), to.nbytes(), cudaMemcpyHostToDevice);
    // Pinned memory may still be read later.
    PinnedAllocator& pinned = PinnedAllocator::instance();
    void* memory = from.impl().storage->data();
    if (pinned.owns(memory)) pinned.record_stream(memory, current_stream(device_));
  } else if (y.device().is_cpu()) {
    copy_bytes(device_, from.data_ptr(), to.data_ptr(), to.nbytes(), cudaMemcpyDeviceToHost);
    current_stream(device_).synchronize();  // the host will read it
  } else {
    copy_to_peer(from, to);
  }
  if (spread) backend(y).copy(to, y);
  if (y.device().is_cpu()) check_indices(device_);
}

namespace {

/// Lets `device` reach the memory of `peer` directly, if the hardware can. Otherwise CUDA copies by
/// way of the host.
void enable_peer_access(int device, int peer) {
  static std::mutex mutex;
  static auto* asked = new std::set<std::tuple<const Cudart*, int, int>>;
  const std::lock_guard lock(mutex);
  if (!asked->emplace(&cudart(), device, peer).second) return;
  const DeviceGuard guard(device);
  int can = 0;
  check(cudart().device_can_access_peer(&can, device, peer));
  if (can == 0) return;
  const cudaError_t status = cudart().device_enable_peer_access(peer, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    cudart().get_last_error();  // by another library in this process
  else
    check(status);
}

}  // namespace

/// Each device's stream waits for the other's: until x is ready, and until y is no longer read.
void CudaBackend::copy_to_peer(const Tensor& from, const Tensor& to) {
  const int source = from.device().index, target = to.device().index;
  enable_peer_access(source, target);
  const Stream there = current_stream(target), here = current_stream(source);
  Event ready(target);
  ready.record(there);
  ready.block(here);
  {
    DeviceGuard guard(source);
    check(cudart().memcpy_peer_async(to.data_ptr(), target, from.data_ptr(), source,
                                     static_cast<std::size_t>(to.nbytes()), here.get()));
  }
  Event done(source);
  done.record(here);
  done.block(there);
}

}  // namespace rondo::cuda
