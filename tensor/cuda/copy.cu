// Filling and copying: within a device (any dtypes and strides), and between devices and the host.
//
// Between memories only dense runs of one dtype can travel. What is not so is made so on the side
// that it comes from, and spread out on the side that it goes to.

#include <cstring>

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

/// A dense run of words of the element's size: fill and copy need not know what they mean.
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
    *reinterpret_cast<Pack<Word>*>(y + first) = pack;
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

/// Four elements of a dense run from one float type to another.
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

/// Within one device.
void copy_here(int device, const Tensor& x, const Tensor& y) {
  const std::array<const Tensor*, 2> tensors = {&x, &y};
  const Collapsed<2> shape(tensors);
  const bool same = x.dtype() == y.dtype(), dense = is_dense_run(shape, x, y);
  if (same && dense)
    return copy_bytes(device, shape.data[0], shape.data[1], y.nbytes(), cudaMemcpyDeviceToDevice);
  if (dense && (convert_dense<float, BFloat16>(device, shape, x, y) ||
                convert_dense<BFloat16, float>(device, shape, x, y) ||
                convert_dense<float, Half>(device, shape, x, y) ||
                convert_dense<Half, float>(device, shape, x, y) ||
                convert_dense<std::uint8_t, float>(device, shape, x, y)))
    return;
  const Operands<2> operands(shape, tensors);
  if (same) {
    visit_word(x.dtype(),
               [&]<class Word>() { for_each(device, shape.numel, Move<Word>{operands}); });
    return;
  }
  visit_compute_type(conversion_dtype(x.dtype(), y.dtype()),
                     [&]<class C>() { for_each(device, shape.numel, Convert<C>{operands}); });
}

/// x as a dense run of y's dtype in the order of y's memory, on the device where x lies.
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

void CudaBackend::fill(const Tensor& y, Scalar value) {
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

void CudaBackend::copy(const Tensor& x, const Tensor& y) {
  if (x.numel() == 0) return;
  if (x.device() == y.device()) return copy_here(device_, x, y);
  if (x.device().is_cpu() || y.device().is_cpu())
    refuse_host_in_capture();  // a graph would keep the address of memory that is gone by then
  const Tensor from = prepared(x, y);
  const bool spread = !y.is_contiguous(from.suggested_format());
  Tensor to = spread ? Tensor::empty(y.shape(), {.dtype = y.dtype(),
                                                 .device = y.device(),
                                                 .format = from.suggested_format()})
                     : y;
  if (x.device().is_cpu()) {
    // From ordinary memory the call returns once the bytes have been taken over.
    copy_bytes(device_, from.data_ptr(), to.data_ptr(), to.nbytes(), cudaMemcpyHostToDevice);
    // Pinned memory is still to be read.
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

/// Each device's stream waits for the other's: for x to be there, and for y to be read no more.
void CudaBackend::copy_to_peer(const Tensor& from, const Tensor& to) {
  const int source = from.device().index, target = to.device().index;
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
