#include <cstring>

#include "data/cuda/augment.h"
#include "tensor/backend.h"
#include "tensor/cuda/allocator.h"
#include "tensor/cuda/launch.cuh"

namespace rondo::data {
namespace {

RONDO_HD bool contains(const Augmentation::Box& box, std::int64_t y, std::int64_t x) {
  return box.top <= y && y < box.bottom && box.left <= x && x < box.right;
}

template <class T>
struct Augment {
  const std::uint8_t* images;
  const Augmentation* drawn;
  const float* table;
  T* out;
  std::int64_t channels, in_height, in_width, height, width, padding;
  std::uint8_t fill;
  bool channels_last;

  /// Computes element i of the output, counted in memory order.
  RONDO_HD void operator()(std::int64_t i) const {
    std::int64_t rest = i, c = 0;
    if (channels_last) {
      c = rest % channels;
      rest /= channels;
    }
    const std::int64_t x = rest % width;
    rest /= width;
    const std::int64_t y = rest % height;
    rest /= height;
    if (!channels_last) {
      c = rest % channels;
      rest /= channels;
    }
    out[i] = value(rest, c, y, x);
  }

  RONDO_HD T value(std::int64_t n, std::int64_t c, std::int64_t y, std::int64_t x) const {
    const Augmentation d = drawn[n];
    if (contains(d.erased, y, x) || contains(d.cut, y, x)) return T(0);
    const std::int64_t row = y + d.top - padding;
    const std::int64_t column = (d.flip ? width - 1 - x : x) + d.left - padding;
    const bool inside = row >= 0 && row < in_height && column >= 0 && column < in_width;
    const std::uint8_t byte =
        inside ? images[((n * channels + c) * in_height + row) * in_width + column] : fill;
    return static_cast<T>(table[256 * c + byte]);
  }
};

}  // namespace

void augment_on_gpu(const Tensor& images, std::span<const Augmentation> drawn,
                    const AugmentPlan& plan, const Tensor& out) {
  if (out.numel() == 0) return;
  const Device device = images.device();
  // Both tables are copied to the device together, from one piece of pinned memory.
  const std::size_t drawn_bytes = drawn.size_bytes();
  const std::size_t bytes = drawn_bytes + plan.table.size() * sizeof(float);
  const Tensor staged =
      Tensor::over(cuda::pinned_storage(bytes, cuda::current_stream(device.index)), 0,
                   {static_cast<std::int64_t>(bytes)}, {1}, u8);
  auto* to = static_cast<char*>(staged.data_ptr());
  std::memcpy(to, drawn.data(), drawn_bytes);
  std::memcpy(to + drawn_bytes, plan.table.data(), bytes - drawn_bytes);
  const Tensor tables =
      Tensor::empty({static_cast<std::int64_t>(bytes)}, {.dtype = u8, .device = device});
  backend(device).copy(staged, tables);
  const auto* at = static_cast<const char*>(tables.data_ptr());
  auto run = [&]<class T>() {
    cuda::for_each(device.index, out.numel(),
                   Augment<T>{.images = images.data_ptr<std::uint8_t>(),
                              .drawn = reinterpret_cast<const Augmentation*>(at),
                              .table = reinterpret_cast<const float*>(at + drawn_bytes),
                              .out = out.data_ptr<T>(),
                              .channels = images.size(1),
                              .in_height = images.size(2),
                              .in_width = images.size(3),
                              .height = out.size(2),
                              .width = out.size(3),
                              .padding = plan.padding,
                              .fill = plan.fill,
                              .channels_last = out.is_contiguous(MemoryFormat::channels_last)});
  };
  if (out.dtype() == f32)
    run.template operator()<float>();
  else
    run.template operator()<std::uint8_t>();
}

}  // namespace rondo::data
