#include "dist/cuda/staged.h"

#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/cuda/allocator.h"
#include "tensor/cuda_graph.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Elements in the order in which they lie in memory.
Tensor as_run(const Tensor& x) { return x.as_view({x.numel()}, {1}, x.storage_offset()); }

Tensor pinned(std::int64_t numel, DType dtype, const cuda::Stream& user) {
  const auto bytes = static_cast<std::size_t>(numel * size_of(dtype));
  return Tensor::over(cuda::pinned_storage(bytes, user), 0, {numel}, {1}, dtype);
}

/// A transfer that the communicator drives like any of the CPU's, and something to be done after
/// it.
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
  /// As the next work of the current stream; does nothing when it is called again.
  virtual void finish() = 0;
  Work transfer_;
};

/// A transfer over the host: its result goes from the host's tensor to the GPU's.
class StagedWork final : public TransferWork {
 public:
  /// `source` is what is read on a stream beside: it lives until the transfer is over.
  StagedWork(Work transfer, Tensor source, Tensor from, Tensor to)
      : TransferWork(std::move(transfer)),
        source_(std::move(source)),
        from_(std::move(from)),
        to_(std::move(to)) {}

 private:
  void finish() override {
    source_ = Tensor();
    if (!to_.defined() || to_.numel() == 0) return;
    backend(to_).copy(from_, as_run(to_));
    cuda::PinnedAllocator::instance().record_stream(from_.data_ptr(),
                                                    cuda::current_stream(to_.device().index));
    from_ = to_ = Tensor();
  }
  Tensor source_, from_, to_;
};

/// MPI's own all-reduce in the GPU's memory; what is left is the division of an average.
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

StagedCollectives::StagedCollectives(Communicator& comm, Device device)
    : comm_(comm), device_(device), stream_(cuda::Stream::create(device.index, true)) {}

/// What x holds when the current stream gets here, in pinned memory, when stream_ gets there.
Tensor StagedCollectives::to_host(const Tensor& x) {
  require<CommError>(!cuda::is_capturing(),
                     "a collective by way of the host cannot be captured into a graph; NCCL's can "
                     "(--all-reduce nccl)");
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

/// The job, when stream_ has brought what it needs; then `from` of the host goes to `to` of the
/// GPU.
template <class Job>
Work StagedCollectives::start(std::string what, Job job, const Tensor& source, const Tensor& from,
                              const Tensor& to) {
  cuda::Event there(device_.index);
  there.record(stream_);
  job.name = std::move(what);
  job.ready = [there] { return there.is_done(); };
  return Work(std::make_shared<StagedWork>(comm_.start(std::move(job)), source, from, to));
}

Work StagedCollectives::all_reduce(std::string what, const Tensor& x, ReduceOp op,
                                   AllReduce algorithm) {
  const bool native = algorithm == AllReduce::mpi || algorithm == AllReduce::mpi_blocking;
  if (native && comm_.transport().reaches_gpus()) {
    const cuda::Event ready(device_.index);
    ready.record(cuda::current_stream(device_.index));
    auto job = comm_.all_reduce_job(x, op == ReduceOp::avg ? ReduceOp::sum : op, algorithm);
    job.name = std::move(what);
    job.ready = [ready] { return ready.is_done(); };
    return Work(std::make_shared<DirectWork>(comm_.start(std::move(job)), x,
                                             op == ReduceOp::avg ? comm_.world_size() : 1));
  }
  const Tensor host = to_host(x);
  return start(std::move(what),
               comm_.all_reduce_job(host, op, native ? algorithm : AllReduce::ring), x, host, x);
}

Work StagedCollectives::broadcast(std::string what, const Tensor& x, int root) {
  const Tensor host = to_host(x);
  return start(std::move(what), comm_.broadcast_job(host, root), x, host, x);
}

Work StagedCollectives::all_gather(std::string what, const Tensor& out, const Tensor& x) {
  const Tensor host = to_host(x), all = pinned(out.numel(), out.dtype(), stream_);
  return start(std::move(what), comm_.all_gather_job(all, host), x, all, out);
}

Work StagedCollectives::reduce_scatter(std::string what, const Tensor& out, const Tensor& x,
                                       ReduceOp op) {
  const Tensor host = to_host(x), part = pinned(out.numel(), out.dtype(), stream_);
  return start(std::move(what), comm_.reduce_scatter_job(part, host, op), x, part, out);
}

Work StagedCollectives::send(std::string what, const Tensor& x, int peer, int tag) {
  const Tensor host = to_host(x);
  return start(std::move(what), comm_.message_job(host, peer, tag, true), x, host, Tensor());
}

Work StagedCollectives::recv(std::string what, const Tensor& x, int peer, int tag) {
  const Tensor host = pinned(x.numel(), x.dtype(), stream_);
  return start(std::move(what), comm_.message_job(host, peer, tag, false), x, host, x);
}

}  // namespace rondo::dist
