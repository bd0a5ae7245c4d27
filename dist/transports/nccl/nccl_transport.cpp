#include "dist/transports/nccl/nccl_transport.h"

#include <algorithm>
#include <vector>

#include "dist/collectives/cuda/combine.h"
#include "tensor/cuda/runtime.h"
#include "tensor/error.h"
#include "tensor/tensor.h"

namespace rondo::dist {
namespace {

class NcclTransport final : public Transport, public Arithmetic {
 public:
  NcclTransport(const Nccl& nccl, ncclComm_t comm, int rank, int world_size,
                const cuda::Stream& stream, std::function<void()> settle)
      : nccl_(nccl),
        comm_(comm),
        rank_(rank),
        world_size_(world_size),
        stream_(stream),
        settle_(std::move(settle)) {}

  int rank() const override { return rank_; }
  int world_size() const override { return world_size_; }
  const char* name() const override { return "nccl"; }

  Request send(int peer, int, const void* data, std::size_t bytes) override {
    count_sent(bytes);
    posted_.push_back({peer, const_cast<void*>(data), bytes, true});
    return {1};
  }
  Request recv(int peer, int, void* data, std::size_t bytes) override {
    posted_.push_back({peer, data, bytes, false});
    return {1};
  }
  bool test(Request& request) override {
    flush();
    request.id = 0;
    return true;
  }
  void abandon(Request& request) noexcept override { request.id = 0; }

  Arithmetic& arithmetic() override { return *this; }
  void combine(void* into, const void* from, std::int64_t count, DType dtype, ReduceOp op,
               int divisor) override {
    combine_on_device(stream_, into, from, count, dtype, op, divisor);
  }
  void abort(int) noexcept override {}  // the watchdog does this

 private:
  struct Posted {
    int peer;
    void* data;
    std::size_t bytes;
    bool is_send;
  };

  void flush() {
    if (posted_.empty()) return;
    const std::vector<Posted> group = std::exchange(posted_, {});
    const cuda::DeviceGuard guard(stream_.device());
    check(nccl_.group_start());
    // The group is always ended, even after an error: inside a group NCCL would only queue an
    // abort.
    ncclResult_t status = ncclSuccess;
    for (const Posted& p : group) {
      const ncclResult_t posted =
          p.is_send ? nccl_.send(p.data, p.bytes, ncclUint8, p.peer, comm_, stream_.get())
                    : nccl_.recv(p.data, p.bytes, ncclUint8, p.peer, comm_, stream_.get());
      if (status == ncclSuccess || status == ncclInProgress) status = posted;
    }
    const ncclResult_t ended = nccl_.group_end();
    check(status);
    check(ended);
    settle_();
  }
  void check(ncclResult_t status) const {
    if (status != ncclSuccess && status != ncclInProgress)
      throw CommError(concat("NCCL: ", nccl_.error_string(status)));
  }

  const Nccl& nccl_;
  ncclComm_t comm_;
  int rank_, world_size_;
  cuda::Stream stream_;
  std::function<void()> settle_;
  std::vector<Posted> posted_;
};

class DeviceScratch final : public ChunkBuffer {
 public:
  explicit DeviceScratch(const cuda::Stream& stream) : stream_(stream) {}
  char* reserve(std::size_t bytes) override {
    const auto held = memory_.empty() ? 0 : static_cast<std::size_t>(memory_.back().nbytes());
    if (memory_.empty() || held < bytes) {
      const cuda::StreamGuard guard(stream_);  // the allocator reuses memory in stream order
      memory_.push_back(Tensor::empty({static_cast<std::int64_t>(std::max(bytes, 2 * held))},
                                      {.dtype = u8, .device = Device::cuda(stream_.device())}));
    }
    return static_cast<char*>(memory_.back().data_ptr());
  }

 private:
  cuda::Stream stream_;
  // The last one is the largest. The others are kept, since a graph may have been captured with
  // them. Each is at most half as large as the next.
  std::vector<Tensor> memory_;
};

}  // namespace

std::unique_ptr<Transport> nccl_transport(const Nccl& nccl, ncclComm_t comm, int rank,
                                          int world_size, const cuda::Stream& stream,
                                          std::function<void()> settle) {
  return std::make_unique<NcclTransport>(nccl, comm, rank, world_size, stream, std::move(settle));
}

std::unique_ptr<ChunkBuffer> device_scratch(const cuda::Stream& stream) {
  return std::make_unique<DeviceScratch>(stream);
}

}  // namespace rondo::dist
