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

StagedCollectives::StagedCollectives(HostCollectives& host, Device device)
    : host_(host), device_(device), stream_(cuda::Stream::create(device.index, true)) {}

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

/// What runs on the host. With other transports than MPI, "mpi" only means that the data goes
/// through the host.
AllReduce StagedCollectives::on_host(AllReduce algorithm) const {
  const bool is_mpis = algorithm == AllReduce::mpi || algorithm == AllReduce::mpi_blocking;
  const bool is_others = algorithm == AllReduce::nccl ||
                         (is_mpis && std::strcmp(host_.transport()->name(), "mpi") != 0);
  return is_others ? AllReduce::automatic : algorithm;
}

void StagedCollectives::check(const Collective& c) const {
  Collective copy = c;
  copy.algorithm = on_host(c.algorithm);
  host_.check(copy);
}

/// Whether MPI reads and writes the GPU's memory by itself. Open MPI's non-blocking collectives
/// crash on such memory, so only the blocking one does. For dtypes that MPI does not know, the host
/// computes in its own memory.
bool StagedCollectives::is_direct(const Collective& c) const {
  return c.kind == Collective::Kind::all_reduce && c.algorithm == AllReduce::mpi_blocking &&
         host_.transport()->reaches_gpus() &&
         host_.transport()->has_native_all_reduce(c.x.dtype(), c.op);
}

Work StagedCollectives::start_directly(Collective&& c) {
  const cuda::Event ready(device_.index);
  ready.record(cuda::current_stream(device_.index));
  const Tensor x = c.x;
  const int divisor = c.op == ReduceOp::avg ? host_.transport()->world_size() : 1;
  if (c.op == ReduceOp::avg) c.op = ReduceOp::sum;
  auto work = host_.prepare(std::move(c));
  work->ready = [ready] { return ready.is_done(); };
  return Work(std::make_shared<DirectWork>(host_.submit(std::move(work)), x, divisor));
}

// The host's collective has the names and the signature of the GPU's.
Work StagedCollectives::start(Collective&& c, bool waits) {
  c.algorithm = on_host(c.algorithm);
  if (is_direct(c)) return start_directly(std::move(c));
  Tensors sources;
  std::vector<FromHost> results;
  std::map<const TensorImpl*, Tensor> copies;  // all_gather sends one tensor to all ranks
  const auto give = [&](const Tensor& x) {
    Tensor& copy = copies[x.impl_ptr().get()];
    if (!copy.defined()) copy = in_shape_of(x, to_host(x));
    sources.push_back(x);
    return copy;
  };
  const auto get = [&](const Tensor& x) {
    results.push_back({pinned(x.numel(), x.dtype(), stream_), x});
    return in_shape_of(x, results.back().from);
  };
  const Tensor x = c.x;
  if (x.defined()) c.x = c.kind == Collective::Kind::recv ? get(x) : give(x);
  if (c.out.defined()) {
    c.out = get(c.out);
  } else if (c.kind != Collective::Kind::recv && c.gets_x(host_.transport()->rank())) {
    results.push_back({as_run(c.x), x});
  }
  for (Tensor& to : c.to) {
    if (to.defined()) to = give(to);
  }
  for (Tensor& from : c.from) {
    if (from.defined()) from = get(from);
  }
  cuda::Event there(device_.index);
  there.record(stream_);
  auto work = host_.prepare(std::move(c));
  // The sources are read until then, even if the Work is destroyed.
  work->ready = [there, sources = std::move(sources)] { return there.is_done(); };
  return Work(
      std::make_shared<StagedWork>(host_.submit(std::move(work), !waits), std::move(results)));
}

}  // namespace rondo::dist
