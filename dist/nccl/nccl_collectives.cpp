#include "dist/nccl/nccl_collectives.h"

#include <cstring>
#include <exception>
#include <thread>

#include "dist/dense.h"
#include "dist/nccl/nccl_transport.h"
#include "tensor/cuda/capture.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Of booleans, which are bytes of 0 and 1 to NCCL, the sum is the largest and the product the
/// smallest.
ncclRedOp_t reduction(ReduceOp op, DType dtype) {
  switch (op) {
    case ReduceOp::sum:
      return dtype == boolean ? ncclMax : ncclSum;
    case ReduceOp::avg:
      return ncclAvg;
    case ReduceOp::min:
      return ncclMin;
    case ReduceOp::max:
      return ncclMax;
    case ReduceOp::bor:  // of booleans: has_op
      return ncclMax;
    case ReduceOp::prod:
    case ReduceOp::band:
      break;
  }
  return dtype == boolean ? ncclMin : ncclProd;
}

/// NCCL has no operation on bits, but those of booleans.
bool has_op(ReduceOp op, DType dtype) {
  return (op != ReduceOp::band && op != ReduceOp::bor) || dtype == boolean;
}
void require_op(const std::string& what, ReduceOp op, DType dtype) {
  require<CommError>(has_op(op, dtype), what, ": NCCL has no ", op, " of ", dtype,
                     "; all_reduce has (rondo's ring computes it)");
}

std::size_t count(const Tensor& x) { return static_cast<std::size_t>(x.numel()); }

/// A collective that lies in a stream.
class StreamWork final : public Pending {
 public:
  StreamWork(std::string name, std::vector<Tensor> tensors, cuda::Event done,
             std::shared_ptr<const Failure> failure)
      : name_(std::move(name)),
        tensors_(std::move(tensors)),
        done_(std::move(done)),
        failure_(std::move(failure)),
        device_(tensors_.front().device().index),
        issuer_(cuda::current_stream(device_).id()) {}

  bool test() override { return done_.is_done(); }
  void wait(std::optional<std::chrono::nanoseconds> timeout) override {
    if (timeout) {
      for (const auto deadline = Clock::now() + *timeout; !done_.is_done();) {
        failure_->check();
        require<CommError>(Clock::now() < deadline, name_, " was not over after ",
                           std::chrono::duration<double>(*timeout).count(), " s");
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    failure_->check();  // an aborted collective is over, too
    const cuda::Stream& current = cuda::current_stream(device_);
    done_.block(current);
    // Whatever reuses their memory there comes after the collective. Another stream knows nothing
    // of it: then the watchdog lets go of them, when it is over.
    if (current.id() == issuer_) release();
  }
  void release() {
    std::vector<Tensor> gone;
    std::lock_guard lock(mutex_);
    gone.swap(tensors_);
  }
  Clock::time_point issued() const override { return issued_; }
  Clock::time_point started() const override { return {}; }
  Clock::time_point finished() const override { return {}; }
  std::string name() const override { return name_; }

 private:
  std::string name_;
  std::mutex mutex_;
  std::vector<Tensor> tensors_;
  cuda::Event done_;
  std::shared_ptr<const Failure> failure_;
  int device_;
  cuda::StreamId issuer_;
  Clock::time_point issued_ = Clock::now();
};

}  // namespace

ncclDataType_t nccl_data_type(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return ncclFloat64;
    case DType::f32:
      return ncclFloat32;
    case DType::bf16:
      return ncclBfloat16;
    case DType::f16:
      return ncclFloat16;
    case DType::i64:
      return ncclInt64;
    case DType::i32:
      return ncclInt32;
    case DType::i8:
      return ncclInt8;
    case DType::u8:
    case DType::boolean:
      break;
  }
  return ncclUint8;
}

std::string nccl_unique_id() {
  ncclUniqueId id;
  const ncclResult_t status = nccl().get_unique_id(&id);
  require<CommError>(status == ncclSuccess, "NCCL: no unique id: ", nccl().error_string(status));
  return {id.internal, sizeof id.internal};
}

ncclUniqueId nccl_unique_id(const std::string& bytes) {
  ncclUniqueId id;
  require<CommError>(bytes.size() == sizeof id.internal, "NCCL: a unique id has ",
                     sizeof id.internal, " bytes, not ", bytes.size());
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

NcclCollectives::NcclCollectives(const Options& options)
    : options_(options),
      nccl_(nccl()),
      stream_(cuda::Stream::create(options.device.index, /*high_priority=*/true)) {
  const cuda::DeviceGuard guard(options_.device.index);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const std::string what = "the start of NCCL";
  try {
    check(nccl_.comm_init_rank(&comm_, options_.world_size, options_.id, options_.rank, &config),
          what);
    settle(what);
  } catch (...) {
    abort();
    throw;
  }
  transport_ = nccl_transport(nccl_, comm_, options_.rank, options_.world_size, stream_,
                              [this] { settle("a message of the ring"); });
  scratch_ = device_scratch(stream_);
  watchdog_ = std::make_unique<Watchdog>(Watchdog::Options{
      .rank = options_.rank,
      .device = options_.device.index,
      .timeout = options_.timeout,
      .error =
          [this] {
            std::lock_guard lock(mutex_);
            ncclResult_t state = ncclSuccess;
            if (comm_ == nullptr) return std::string("the communicator is gone");
            const ncclResult_t status = nccl_.comm_async_error(comm_, &state);
            if (status != ncclSuccess) state = status;
            return state == ncclSuccess || state == ncclInProgress ? "" : describe(state);
          },
      .abort = [this] { abort(); }});
}

// What is still going on is waited for, as long as the watchdog lets it; after an exception it is
// given up at once, since the peers may be waiting for this rank to fail.
NcclCollectives::~NcclCollectives() {
  bool is_idle = watchdog_->is_idle();
  try {
    const auto deadline = Clock::now() + 2 * options_.timeout;
    while (!is_idle && std::uncaught_exceptions() == 0 && Clock::now() < deadline) {
      watchdog_->failure()->check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      is_idle = watchdog_->is_idle();
    }
  } catch (const CommError&) {
    is_idle = false;
  }
  watchdog_->stop();
  std::lock_guard lock(mutex_);
  if (comm_ == nullptr) return;
  if (!is_idle) {
    nccl_.comm_abort(comm_);
    return;
  }
  ncclResult_t state = nccl_.comm_finalize(comm_);
  const auto deadline = Clock::now() + std::chrono::seconds(5);
  while (state == ncclInProgress && Clock::now() < deadline) {
    std::this_thread::yield();
    if (nccl_.comm_async_error(comm_, &state) != ncclSuccess) break;
  }
  if (state == ncclSuccess)
    nccl_.comm_destroy(comm_);
  else
    nccl_.comm_abort(comm_);
}

std::string NcclCollectives::describe(ncclResult_t status) const {
  std::string text = nccl_.error_string(status);
  const char* more = comm_ != nullptr ? nccl_.last_error(comm_) : nullptr;
  return more != nullptr && *more != 0 ? concat(text, " (", more, ")") : text;
}

void NcclCollectives::abort() {
  ncclComm_t comm = nullptr;
  {
    std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm != nullptr) nccl_.comm_abort(comm);  // may take as long as a graph that uses it lives
}

void NcclCollectives::check(ncclResult_t status, const std::string& what) {
  if (status == ncclSuccess || status == ncclInProgress) return;
  throw CommError(concat("rank ", options_.rank, ": ", what, " failed: NCCL: ", describe(status)));
}

/// Until NCCL has done on the host what it was asked for.
void NcclCollectives::settle(const std::string& what) {
  const auto deadline = Clock::now() + options_.timeout;
  ncclResult_t state = ncclInProgress;
  while (true) {
    check(nccl_.comm_async_error(comm_, &state), what);
    check(state, what);
    if (state == ncclSuccess) return;
    require<CommError>(Clock::now() < deadline, "rank ", options_.rank, ": ", what,
                       " gave up after ", std::chrono::duration<double>(options_.timeout).count(),
                       " s of waiting for the other ranks");
    std::this_thread::yield();
  }
}

/// body(), which puts a collective into stream_, between an event of the current stream and one of
/// the collective's own (Note [The stream of a collective]).
template <class Body>
Work NcclCollectives::put(std::string what, std::vector<Tensor> tensors, Body body) {
  watchdog_->failure()->check();
  const int device = options_.device.index;
  const cuda::DeviceGuard guard(device);
  const cuda::Event ready(device);
  ready.record(cuda::current_stream(device));
  ready.block(stream_);
  try {
    std::lock_guard lock(mutex_);
    require<CommError>(comm_ != nullptr, "rank ", options_.rank, ": ", what,
                       ": the communicator has been aborted");
    body();
    settle(what);
  } catch (const std::exception& e) {
    watchdog_->give_up(e.what());  // the ranks are out of step: nothing can follow
    throw;
  }
  const cuda::Event done(device);
  done.record(stream_);
  auto work = std::make_shared<StreamWork>(what, std::move(tensors), done, watchdog_->failure());
  // What is captured into a graph runs later, and nobody can ask about it.
  if (cuda::is_capturing()) {
    cuda::keep_with_capture(shared_from_this());
  } else {
    watchdog_->watch(what, [work] {
      if (!work->test()) return false;
      work->release();
      return true;
    });
  }
  return Work(work);
}

void NcclCollectives::watch(std::string what) {
  watchdog_->failure()->check();
  const cuda::Event done(options_.device.index);
  done.record(cuda::current_stream(options_.device.index));
  watchdog_->watch(std::move(what), [done] { return done.is_done(); });
}

Work NcclCollectives::all_reduce(std::string what, const Tensor& x, ReduceOp op,
                                 AllReduce algorithm) {
  return put(what, {x}, [&] {
    if (algorithm != AllReduce::ring && has_op(op, x.dtype())) {
      check(nccl_.all_reduce(x.data_ptr(), x.data_ptr(), count(x), nccl_data_type(x.dtype()),
                             reduction(op, x.dtype()), comm_, stream_.get()),
            what);
      return;
    }
    // A segment at a time, one message each way: the links of GPUs need no smaller chunks, and each
    // message is a kernel.
    RingOptions ring = options_.ring;
    ring.chunks_per_segment = 1;
    ring.window = 1;
    const std::int64_t segment = (x.numel() + options_.world_size - 1) / options_.world_size;
    ring.chunk_bytes = static_cast<std::size_t>(segment * size_of(x.dtype()));
    auto operation =
        ring_all_reduce(*transport_, *scratch_, x.data_ptr(), x.numel(), x.dtype(), op, ring);
    while (operation->poll() != Poll::done) {
    }
  });
}

Work NcclCollectives::broadcast(std::string what, const Tensor& x, int root) {
  return put(what, {x}, [&] {
    check(nccl_.broadcast(x.data_ptr(), x.data_ptr(), static_cast<std::size_t>(x.nbytes()),
                          ncclUint8, root, comm_, stream_.get()),
          what);
  });
}

Work NcclCollectives::reduce(std::string what, const Tensor& x, int root, ReduceOp op) {
  require_op(what, op, x.dtype());
  return put(what, {x}, [&] {
    check(nccl_.reduce(x.data_ptr(), x.data_ptr(), count(x), nccl_data_type(x.dtype()),
                       reduction(op, x.dtype()), root, comm_, stream_.get()),
          what);
  });
}

Work NcclCollectives::exchange(std::string what, const Tensors& from, const Tensors& to) {
  std::vector<Tensor> used;
  for (const Tensors* list : {&from, &to}) {
    for (const Tensor& x : *list) {
      if (x.defined()) used.push_back(x);
    }
  }
  return put(what, used, [&] {
    const auto me = static_cast<std::size_t>(options_.rank);
    if (from[me].defined() && from[me].numel() > 0) {
      const cuda::StreamGuard guard(stream_);
      copy_elements(to[me], from[me]);
    }
    check(nccl_.group_start(), what);
    // The group is ended whatever happens in it (nccl_transport.cpp).
    ncclResult_t status = ncclSuccess;
    auto note = [&](ncclResult_t posted) {
      if (status == ncclSuccess || status == ncclInProgress) status = posted;
    };
    for (std::size_t r = 0; r < to.size(); ++r) {
      const int peer = static_cast<int>(r);
      if (r == me) continue;
      if (to[r].defined() && to[r].numel() > 0)
        note(nccl_.send(to[r].data_ptr(), bytes_of(to[r]), ncclUint8, peer, comm_, stream_.get()));
      if (from[r].defined() && from[r].numel() > 0)
        note(nccl_.recv(from[r].data_ptr(), bytes_of(from[r]), ncclUint8, peer, comm_,
                        stream_.get()));
    }
    const ncclResult_t ended = nccl_.group_end();
    check(status, what);
    check(ended, what);
  });
}

Work NcclCollectives::all_gather(std::string what, const Tensor& out, const Tensor& x) {
  return put(what, {out, x}, [&] {
    check(nccl_.all_gather(x.data_ptr(), out.data_ptr(), static_cast<std::size_t>(x.nbytes()),
                           ncclUint8, comm_, stream_.get()),
          what);
  });
}

Work NcclCollectives::reduce_scatter(std::string what, const Tensor& out, const Tensor& x,
                                     ReduceOp op) {
  require_op(what, op, x.dtype());
  return put(what, {out, x}, [&] {
    check(nccl_.reduce_scatter(x.data_ptr(), out.data_ptr(), count(out), nccl_data_type(x.dtype()),
                               reduction(op, x.dtype()), comm_, stream_.get()),
          what);
  });
}

Work NcclCollectives::send(std::string what, const Tensor& x, int peer, int) {
  return put(what, {x}, [&] {
    check(nccl_.send(x.data_ptr(), static_cast<std::size_t>(x.nbytes()), ncclUint8, peer, comm_,
                     stream_.get()),
          what);
  });
}

Work NcclCollectives::recv(std::string what, const Tensor& x, int peer, int) {
  return put(what, {x}, [&] {
    check(nccl_.recv(x.data_ptr(), static_cast<std::size_t>(x.nbytes()), ncclUint8, peer, comm_,
                     stream_.get()),
          what);
  });
}

}  // namespace rondo::dist
