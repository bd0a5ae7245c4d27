#include "data/prefetch.h"

#include <array>
#include <cstring>
#include <optional>

#include "tensor/backend.h"

#ifdef RONDO_HAS_CUDA
#include "tensor/cuda/allocator.h"
#include "tensor/cuda/runtime.h"
#endif

namespace rondo::data {

#ifdef RONDO_HAS_CUDA

/// The transfer to the device. It has two places there: one for the batch that is used next, one
/// for the batch in transfer.
class DeviceBatches::Iterator::Lane {
 public:
  explicit Lane(int device)
      : device_(device),
        stream_(cuda::Stream::create(device)),
        places_{Place(device), Place(device)} {}

  /// The places' memory returns to the stream, so the stream must wait for their last use.
  ~Lane() {
    try {
      for (Place& place : places_) place.read.block(stream_);
    } catch (const CudaError&) {
      // The device is lost, and every call fails: nothing will use the memory again.
    }
  }
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  /// Starts the transfer of a batch.
  void send(const Batch& batch) {
    Place& place = places_[next_ % 2];
    ++next_;
    place.read.block(stream_);               // waits until the previous content was read
    const cuda::StreamGuard guard(stream_);  // the places' memory belongs to it
    place.batch = {sent(batch.input, place.batch.input), sent(batch.target, place.batch.target)};
    place.arrived.record(stream_);
    place.full = true;
  }
  /// The oldest batch that was sent and not yet taken, or nullopt.
  std::optional<Batch> take() {
    Place& place = places_[taken_ % 2];
    if (!place.full) return {};
    ++taken_;
    const cuda::Stream current = cuda::current_stream(device_);
    place.arrived.block(current);
    Batch batch{copied(place.batch.input), copied(place.batch.target)};
    place.read.record(current);
    place.full = false;
    return batch;
  }

 private:
  struct Place {
    explicit Place(int device) : arrived(device), read(device) {}
    Batch batch;
    bool full = false;
    cuda::Event arrived, read;
  };

  /// Queues on stream_ a copy of x into `place`, or into new memory if x does not fit there.
  Tensor sent(const Tensor& x, const Tensor& place) const {
    const MemoryFormat format = x.suggested_format();
    Tensor there = place;
    if (!place.defined() || place.shape() != x.shape() || place.dtype() != x.dtype() ||
        !place.is_contiguous(format))
      there = Tensor::empty(
          x.shape(), {.dtype = x.dtype(), .device = Device::cuda(device_), .format = format});
    if (x.numel() == 0) return there;
    const auto bytes = static_cast<std::size_t>(x.nbytes());
    const Tensor host = Tensor::over(cuda::pinned_storage(bytes, stream_), 0, x.shape(),
                                     there.strides(), x.dtype());
    backend(host).copy(x, host);
    backend(there).copy(host, there);
    return there;
  }
  static Tensor copied(const Tensor& x) {
    const Tensor copy = Tensor::empty_like(x);
    backend(x).copy(x, copy);
    return copy;
  }

  int device_;
  cuda::Stream stream_;
  std::array<Place, 2> places_;
  std::size_t next_ = 0, taken_ = 0;
};

#else

class DeviceBatches::Iterator::Lane {
 public:
  explicit Lane(int) {}
  void send(const Batch&) {}
  std::optional<Batch> take() { return {}; }
};

#endif

DeviceBatches::Iterator DeviceBatches::begin() { return Iterator(loader_.begin(), device_); }

DeviceBatches::Iterator::Iterator(DataLoader::Iterator batches, Device device)
    : batches_(std::move(batches)), device_(device) {
  if (batches_ == std::default_sentinel) return;
  if (batches_->input.device() != device_ && device_.is_cuda()) {
    lane_ = std::make_unique<Lane>(device_.index);
    lane_->send(*batches_);
    ++batches_;
  }
  take();
}

DeviceBatches::Iterator::Iterator(Iterator&&) noexcept = default;
DeviceBatches::Iterator& DeviceBatches::Iterator::operator=(Iterator&&) noexcept = default;
DeviceBatches::Iterator::~Iterator() = default;

void DeviceBatches::Iterator::take() {
  current_ = nullptr;
  if (lane_ == nullptr) {
    if (batches_ != std::default_sentinel) current_ = std::make_unique<Batch>(std::move(*batches_));
    return;
  }
  if (std::optional<Batch> batch = lane_->take()) current_ = std::make_unique<Batch>(*batch);
  if (batches_ != std::default_sentinel) {
    lane_->send(*batches_);
    ++batches_;
  }
}

DeviceBatches::Iterator& DeviceBatches::Iterator::operator++() {
  if (lane_ == nullptr) ++batches_;
  take();
  return *this;
}

}  // namespace rondo::data
