#pragma once
// Streams and events: queues of work on a GPU, and marks in them that other streams and the host
// can wait for.
//
// Every kernel of rondo is submitted to the calling thread's current stream of its device, as in
// PyTorch. Without a StreamGuard this is the device's legacy default stream. Only the functions
// called `synchronize` make the host wait, and these waits are counted: a training step must make
// none (tests assert it).

#include <cstdint>
#include <memory>

#include "tensor/cuda/block_pool.h"
#include "tensor/cuda/runtime.h"

namespace rondo::cuda {

/// A handle to a stream. Copies refer to the same stream, which is released with the last copy.
class Stream {
 public:
  /// The default stream of a device.
  explicit Stream(int device) : device_(device) {}
  /// A new stream, separate from the default one. With `high_priority`, its kernels overtake
  /// waiting kernels of other streams (for communication, so that the next bucket does not wait for
  /// a whole backward).
  static Stream create(int device, bool high_priority = false);

  int device() const { return device_; }
  cudaStream_t get() const { return owned_ ? owned_.get() : nullptr; }
  StreamId id() const { return {device_, get()}; }
  /// Waits until all work submitted to the stream is done.
  void synchronize() const;
  /// Whether all work is done. Never waits.
  bool is_done() const;
  bool operator==(const Stream& other) const {
    return device_ == other.device_ && get() == other.get();
  }

 private:
  int device_;
  std::shared_ptr<CUstream_st> owned_;  // null: the default stream
};

/// The calling thread's current stream of a device.
Stream current_stream(int device);

/// Makes a stream the calling thread's current stream of its device until the end of the scope.
class StreamGuard {
 public:
  explicit StreamGuard(const Stream& stream);
  ~StreamGuard();
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  Stream before_;
};

/// A mark in a stream.
class Event {
 public:
  explicit Event(int device, bool with_time = false);

  /// Places the mark after all work that is in the stream now.
  void record(const Stream& stream) const;
  /// Makes the stream wait until the mark has been reached; the host does not wait.
  void block(const Stream& stream) const;
  bool is_done() const;
  void synchronize() const;
  /// Milliseconds from `start` to this mark. Both must be created with_time and reached.
  float ms_since(const Event& start) const;
  cudaEvent_t get() const { return event_.get(); }

 private:
  int device_;
  std::shared_ptr<CUevent_st> event_;
};

/// The number of times that the host has waited for a device in this process.
std::uint64_t synchronizations();
/// Adds one to synchronizations(), for callers that wait in another way (a blocking copy).
void count_synchronization();
/// Throws CudaError inside cuda::Graph::capture.
void refuse_host_in_capture();

}  // namespace rondo::cuda
