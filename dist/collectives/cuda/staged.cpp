#include "dist/collectives/cuda/staged.h"

#include <cstring>
#include <map>
#include <utility>

#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/cuda/allocator.h"
#include "tensor/cuda_graph.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// The elements in memory order, as one dimension.
Tensor as_run(const Tensor& x) { return x.as_view({x.numel()}, {1}, x.storage_offset()); }

/// The elements of `run`, with the shape of x.
Tensor in_shape_of(const Tensor& x, const Tensor& run) {
  return run.as_view(x.shape(), strides_of(x.shape()), run.storage_offset());
}

Tensor pinned(std::int64_t numel, DType dtype, const cuda::Stream& user) {
  const auto bytes = static_cast<std::size_t>(numel * size_of(dtype));
  return Tensor::over(cuda::pinned_storage(bytes, user), 0, {numel}, {1}, dtype);
}

}  // namespace

/// A transfer that the communicator runs like one of CPU tensors, followed by `finish`.
class TransferWork : public Pending {
 public:
  explicit TransferWork(Work transfer) : transfer_(std::move(transfer)) {}
  bool test() final { return transfer_.test(); }
  void wait(std::optional<std::chrono::nanoseconds> timeout) final {
    transfer_.wait(timeout);
    finish();
  }
  Clock::time_point issued() const final { return transfer_.issued(); }
  Clock::time_point started() const final { return transfer_.started(); }
  Clock::time_point finished() const final { return transfer_.finished(); }
  std::string name() const final { return transfer_.name(); }

 private:
  /// Queues the rest of the work in the current stream. Does nothing on a second call.
  virtual void finish() = 0;
  Work transfer_;
};

namespace {

/// MPI's own all-reduce in the GPU's memory. `finish` divides an average.
class DirectWork final : public TransferWork {
 public:
  DirectWork(Work transfer, Tensor x, int divisor)
      : TransferWork(std::move(transfer)), x_(std::move(x)), divisor_(divisor) {}

 private:
  void finish() override {
    if (divisor_ > 1) {
      const Tensor run = as_run(x_);
      backend(x_).unary(UnaryOp::mul_scalar, run, run, {.alpha = 1.0 / divisor_});
    }
    divisor_ = 1;
  }
  Tensor x_;
  int divisor_;
};

}  // namespace

/// A transfer through the host. `finish` copies its results from the host's tensors to the GPU's.
class StagedWork final : public TransferWork {
 public:
  StagedWork(Work transfer, std::vector<StagedCollectives::FromHost> results)
      : TransferWork(std::move(transfer)), results_(std::move(results)) {}

 private:
  void finish() override {
    for (const auto& [from, to] : std::exchange(results_, {})) {
      if (!to.defined() || to.numel() == 0) continue;
      backend(to).copy(from, as_run(to));
      cuda::PinnedAllocator::instance().record_stream(from.data_ptr(),
                                                      cuda::current_stream(to.device().index));
    }
  }
  std::vector<StagedCollectives::FromHost> results_;
};

StagedCollectives::StagedCollectives(Communicator& comm, Device device)
    : comm_(comm), device_(device), stream_(cuda::Stream::create(device.index, true)) {}

/// Copies x, as of the current stream's position, to pinned memory, in stream_.
Tensor StagedCollectives::to_host(const Tensor& x) {
  require<CommError>(!cuda::is_capturing(),
                     "a collective through the host's memory cannot be captured into a graph; use "
                     "NCCL (--all-reduce nccl)");
  const cuda::Event ready(device_.index);
  ready.record(cuda::current_stream(device_.index));
  ready.block(stream_);
  const Tensor host = pinned(x.numel(), x.dtype(), stream_);
  const cuda::DeviceGuard guard(device_.index);
  cuda::check(cuda::cudart().memcpy_async(host.data_ptr(), x.data_ptr(),
                                          static_cast<std::size_t>(x.nbytes()),
                                          cudaMemcpyDeviceToHost, stream_.get()));
  return host;
}

/// Starts the job when stream_ has copied its sources to the host. Then its results are copied to
/// the GPU.
template <class Job>
Work StagedCollectives::start(std::string what, Job job, Tensors sources,
                              std::vector<FromHost> results) {
  cuda::Event there(device_.index);
  there.record(stream_);
  job.name = std::move(what);
  // The sources are read until then, even if the Work is destroyed.
  job.ready = [there, sources = std::move(sources)] { return there.is_done(); };
  return Work(std::make_shared<StagedWork>(comm_.start(std::move(job)), std::move(results)));
}

Work StagedCollectives::all_reduce(DeviceCall call, const Tensor& x, ReduceOp op,
                                   AllReduce algorithm) {
  // With other transports "mpi" only means that the data goes through the host.
  const bool native = (algorithm == AllReduce::mpi || algorithm == AllReduce::mpi_blocking) &&
                      std::strcmp(comm_.backend(), "mpi") == 0;
  // For dtypes that MPI does not know, the host computes in its own memory.
  if (native && comm_.transport().reaches_gpus() &&
      comm_.transport().has_native_all_reduce(x.dtype(), op)) {
    const cuda::Event ready(device_.index);
    ready.record(cuda::current_stream(device_.index));
    auto job = comm_.all_reduce_job(x, op == ReduceOp::avg ? ReduceOp::sum : op, algorithm);
    job.name = std::move(call.title);
    job.ready = [ready] { return ready.is_done(); };
    return Work(std::make_shared<DirectWork>(comm_.start(std::move(job)), x,
                                             op == ReduceOp::avg ? comm_.world_size() : 1));
  }
  const bool is_others = algorithm == AllReduce::nccl || algorithm == AllReduce::mpi ||
                         algorithm == AllReduce::mpi_blocking;
  const Tensor host = to_host(x);
  return start(
      std::move(call.title),
      comm_.all_reduce_job(host, op, native || !is_others ? algorithm : AllReduce::automatic), {x},
      {{host, x}});
}

Work StagedCollectives::broadcast(DeviceCall call, const Tensor& x, int root) {
  const Tensor host = to_host(x);
  return start(std::move(call.title), comm_.broadcast_job(host, root), {x}, {{host, x}});
}

Work StagedCollectives::reduce(DeviceCall call, const Tensor& x, int root, ReduceOp op) {
  const Tensor host = to_host(x);
  std::vector<FromHost> results;
  if (comm_.rank() == root) results.push_back({host, x});
  return start(std::move(call.title), comm_.reduce_job(host, root, op), {x}, std::move(results));
}

// The signatures contain the names, roots and shapes of the GPU's tensors, so that the ranks detect
// different calls.
Work StagedCollectives::exchange(DeviceCall call, const Tensors& from, const Tensors& to,
                                 int root) {
  Tensors sent, received;
  std::vector<FromHost> results;
  // All-gather sends one tensor to all ranks: copy it only once.
  std::map<const TensorImpl*, Tensor> on_host;
  for (const Tensor& x : to) {
    Tensor& copy = on_host[x.impl_ptr().get()];
    if (x.defined() && !copy.defined()) copy = in_shape_of(x, to_host(x));
    sent.push_back(copy);
  }
  for (const Tensor& x : from) {
    received.push_back(x.defined() ? in_shape_of(x, pinned(x.numel(), x.dtype(), stream_))
                                   : Tensor());
    if (x.defined()) results.push_back({as_run(received.back()), x});
  }
  return start(std::move(call.title), comm_.exchange_job(call.signature.name, received, sent, root),
               to, std::move(results));
}

Work StagedCollectives::all_gather(DeviceCall call, const Tensor& out, const Tensor& x) {
  const Tensor host = to_host(x), all = pinned(out.numel(), out.dtype(), stream_);
  return start(std::move(call.title), comm_.all_gather_job(all, host), {x}, {{all, out}});
}

Work StagedCollectives::reduce_scatter(DeviceCall call, const Tensor& out, const Tensor& x,
                                       ReduceOp op) {
  const Tensor host = to_host(x), part = pinned(out.numel(), out.dtype(), stream_);
  return start(std::move(call.title), comm_.reduce_scatter_job(part, host, op), {x}, {{part, out}});
}

Work StagedCollectives::send(DeviceCall call, const Tensor& x, int peer, int tag) {
  const Tensor host = to_host(x);
  return start(std::move(call.title), comm_.message_job(host, peer, tag, true), {x}, {});
}

Work StagedCollectives::recv(DeviceCall call, const Tensor& x, int peer, int tag) {
  const Tensor host = pinned(x.numel(), x.dtype(), stream_);
  return start(std::move(call.title), comm_.message_job(host, peer, tag, false), {}, {{host, x}});
}

}  // namespace rondo::dist
