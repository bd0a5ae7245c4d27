#include "dist/transports/nccl/nccl_collectives.h"

#include <cstring>
#include <exception>
#include <map>
#include <thread>

#include "dist/collectives/dense.h"
#include "dist/collectives/progress.h"
#include "dist/transports/nccl/nccl_transport.h"
#include "tensor/cuda/capture.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using Kind = Collective::Kind;

/// Whether out, or x, is this rank's part of the other one. NCCL allows no other overlap.
bool is_in_place(const Collective& c, int rank) {
  const bool gathers = c.kind == Kind::all_gather;
  const Tensor &whole = gathers ? c.out : c.x, &part = gathers ? c.x : c.out;
  const auto* own = static_cast<const char*>(whole.data_ptr()) + rank * part.nbytes();
  return part.data_ptr() == own;
}

/// To NCCL booleans are bytes of 0 and 1. Their sum is the maximum and their product the minimum.
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
    case ReduceOp::bor:  // only for booleans: has_op
      return ncclMax;
    case ReduceOp::prod:
    case ReduceOp::band:
      break;
  }
  return dtype == boolean ? ncclMin : ncclProd;
}

/// NCCL has no bitwise operations, except on booleans.
bool has_op(ReduceOp op, DType dtype) {
  return (op != ReduceOp::band && op != ReduceOp::bor) || dtype == boolean;
}
void require_op(const std::string& what, ReduceOp op, DType dtype) {
  require<CommError>(has_op(op, dtype), what, ": NCCL does not support ", op, " of ", dtype,
                     "; all_reduce does (with rondo's ring)");
}

/// The queue that the communicators of a rank share. Ranks that are threads may share a GPU.
std::shared_ptr<NcclQueue> queue_of(int rank_in_world, int device) {
  static std::mutex mutex;
  static std::map<std::pair<int, int>, std::weak_ptr<NcclQueue>> queues;
  std::lock_guard lock(mutex);
  std::weak_ptr<NcclQueue>& known = queues[{rank_in_world, device}];
  std::shared_ptr<NcclQueue> queue = known.lock();
  if (queue == nullptr) {
    queue = std::make_shared<NcclQueue>(device);
    known = queue;
  }
  return queue;
}

std::size_t count(const Tensor& x) { return static_cast<std::size_t>(x.numel()); }

}  // namespace

/// A collective in a stream.
class StreamWork final : public Pending {
 public:
  StreamWork(std::string name, std::vector<Tensor> tensors, cuda::Event begun, cuda::Event done,
             std::shared_ptr<const Failure> failure)
      : name_(std::move(name)),
        tensors_(std::move(tensors)),
        begun_(std::move(begun)),
        done_(std::move(done)),
        failure_(std::move(failure)),
        device_(tensors_.front().device().index),
        issuer_(cuda::current_stream(device_).id()) {}

  bool test() override { return done_.is_done(); }
  void wait(std::optional<std::chrono::nanoseconds> timeout) override {
    if (timeout) {
      for (const auto deadline = Clock::now() + *timeout; !done_.is_done();) {
        failure_->check();
        require<CommError>(Clock::now() < deadline, name_, " was not complete after ",
                           std::chrono::duration<double>(*timeout).count(), " s");
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    failure_->check();  // an aborted collective is complete, too
    const cuda::Stream& current = cuda::current_stream(device_);
    done_.block(current);
    // In the stream that issued the collective, whatever reuses the tensors' memory comes after it.
    // Another stream gives no such guarantee: then the watchdog releases the tensors when the
    // collective is complete.
    if (current.id() == issuer_) release();
  }
  const cuda::Event& begun() const { return begun_; }
  const cuda::Event& done() const { return done_; }
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
  cuda::Event begun_, done_;
  std::shared_ptr<const Failure> failure_;
  int device_;
  cuda::StreamId issuer_;
  Clock::time_point issued_ = Clock::now();
};

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
  require<CommError>(status == ncclSuccess,
                     "NCCL cannot create a unique id: ", nccl().error_string(status));
  return {id.internal, sizeof id.internal};
}

ncclUniqueId nccl_unique_id(const std::string& bytes) {
  ncclUniqueId id;
  require<CommError>(bytes.size() == sizeof id.internal, "NCCL: a unique id has ",
                     sizeof id.internal, " bytes, not ", bytes.size());
  std::memcpy(id.internal, bytes.data(), bytes.size());
  return id;
}

NcclCollectives::NcclCollectives(const Ranks& ranks, Device device, const ncclUniqueId& id)
    : rank_(ranks.rank()),
      world_size_(ranks.world_size()),
      device_(device),
      timeout_(std::min(ranks.options().timeout, longest_wait)),
      ring_(ranks.options().ring),
      recorder_(ranks.recorder()),
      watch_(ranks.watch()),
      nccl_(nccl()),
      comm_(ranks.rank_in_world()),
      queue_(queue_of(ranks.rank_in_world(), device.index)),
      stream_(queue_->stream),
      clock_(std::make_shared<DeviceClock>(device.index)) {
  const cuda::DeviceGuard guard(device_.index);
  const std::string what = "the start of NCCL";
  comm_.begin(rank_, world_size_, id, what);
  settle(what);
  transport_ = nccl_transport(nccl_, comm_.get(what), rank_, world_size_, stream_,
                              [this] { settle("a message of the ring"); });
  scratch_ = device_scratch(stream_);
  watchdog_ = std::make_unique<Watchdog>(
      Watchdog::Options{.rank = ranks.rank_in_world(),
                        .device = device_.index,
                        .timeout = timeout_,
                        .error =
                            [this] {
                              const std::string error = comm_.error();
                              return error.empty() ? messages_->error() : error;
                            },
                        .news = news_of(watch_),
                        .abort =
                            [this] {
                              // First the messages: a collective's kernel may be waiting for
                              // room on the GPU that a message's kernel occupies, and NCCL's
                              // abort waits for the kernel.
                              messages_->abort();
                              comm_.abort();
                            }});
  messages_ = std::make_unique<NcclMessages>(ranks.host(), device, *watchdog_);
}

// Waits for work that is still under way, as long as the watchdog permits. After an exception the
// work is given up at once, since the peers may be waiting for this rank to fail.
NcclCollectives::~NcclCollectives() {
  bool is_idle = watchdog_->is_idle();
  try {
    const auto deadline = Clock::now() + 2 * timeout_;
    while (!is_idle && std::uncaught_exceptions() == 0 && Clock::now() < deadline) {
      watchdog_->failure()->check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      is_idle = watchdog_->is_idle();
    }
  } catch (const CommError&) {
    is_idle = false;
  }
  watchdog_->stop();
  std::vector<NcclCommunicator*> all = messages_->communicators();
  all.push_back(&comm_);
  NcclCommunicator::end(all, is_idle);
}

/// Waits until NCCL has completed its calls on the host.
void NcclCollectives::settle(const std::string& what) {
  const auto deadline = Clock::now() + timeout_;
  auto next_look = Clock::now() + between_looks;
  const auto news = news_of(watch_);
  while (!comm_.is_settled(what)) {
    if (watchdog_ != nullptr) watchdog_->failure()->check();
    if (news && Clock::now() > next_look) {
      next_look = Clock::now() + between_looks;
      const std::string heard = news();
      require<CommError>(heard.empty(), "rank ", comm_.rank_in_world(), ": ", what,
                         " failed: ", heard);
    }
    require<CommError>(Clock::now() < deadline, "rank ", comm_.rank_in_world(), ": ", what,
                       " gave up after ", std::chrono::duration<double>(timeout_).count(),
                       " s of waiting for the other ranks");
    std::this_thread::yield();
  }
}

Work NcclCollectives::start(Collective&& c, bool /*waits*/) {
  if (c.is_message()) return messages_->post(c);
  if (c.kind == Kind::reduce || c.kind == Kind::reduce_scatter)
    require_op(c.title(), c.op, c.x.dtype());
  if (c.out.defined() && overlap(c.out, c.x) && !is_in_place(c, rank_)) c.x = copy_of(c.x);
  return put(c);
}

/// Puts a collective into stream_, between an event of the current stream and an event of its own
/// (Note [The stream of a collective]).
Work NcclCollectives::put(const Collective& c) {
  std::string title = c.title();
  Tensors tensors = c.tensors();
  watchdog_->failure()->check();
  const int device = device_.index;
  const cuda::DeviceGuard guard(device);
  // A collective that is captured into a graph runs later, and cannot be polled.
  const bool captures = cuda::is_capturing();
  std::optional<std::uint64_t> record;
  if (!captures && c.signature.name[0] != 0) record = recorder_->issued(c.signature, c.about);
  const cuda::Event ready(device), begun(device, /*with_time=*/true),
      done(device, /*with_time=*/true);
  std::unique_lock turn(queue_->mutex);
  ready.record(cuda::current_stream(device));
  ready.block(stream_);
  begun.record(stream_);
  try {
    std::lock_guard lock(comm_.mutex);
    comm_.get(title);
    call(c, title);
    settle(title);
  } catch (const std::exception& e) {
    // The collective may be in the stream nevertheless, until the communicator has been aborted.
    watchdog_->watch(title, [kept = tensors] { return kept.empty(); });
    watchdog_->failure()->check();  // an earlier failure tells the reason better
    watchdog_->give_up(e.what());   // the ranks are out of step: no collective can follow
    if (record) recorder_->finished(*record, false);
    throw;
  }
  done.record(stream_);
  turn.unlock();
  auto work =
      std::make_shared<StreamWork>(title, std::move(tensors), begun, done, watchdog_->failure());
  if (captures)
    cuda::keep_with_capture(shared_from_this());
  else
    look_after(std::move(title), record, work);
  return Work(work);
}

/// Hands a collective to the watchdog, which also updates its flight record.
void NcclCollectives::look_after(std::string title, std::optional<std::uint64_t> number,
                                 const std::shared_ptr<StreamWork>& work) {
  struct Recorded {
    std::shared_ptr<FlightRecorder> all;  // null: it has no record
    std::uint64_t number = 0;
    bool has_begun = false;
  };
  auto record = std::make_shared<Recorded>();
  if (number) *record = {recorder_, *number};
  auto is_over = [work, record, clock = clock_] {
    const bool is_done = work->test();
    if (record->all != nullptr && !record->has_begun && (is_done || work->begun().is_done())) {
      record->has_begun = true;
      record->all->started(record->number, clock->time_of(work->begun()));
    }
    if (!is_done) return false;
    if (record->all != nullptr)
      record->all->finished(record->number, true, clock->time_of(work->done()));
    work->release();
    return true;
  };
  watchdog_->watch(
      std::move(title), std::move(is_over),
      [record] {
        if (record->all != nullptr) record->all->finished(record->number, false);
      },
      [work] { return work->begun().is_done(); });
}

// A replayed graph has one record. Only its end is known.
void NcclCollectives::watch(std::string what) {
  watchdog_->failure()->check();
  const cuda::Event done(device_.index, /*with_time=*/true);
  done.record(cuda::current_stream(device_.index));
  const std::uint64_t record = recorder_->issued(Signature("graph", replays_++), what, true);
  watchdog_->watch(
      std::move(what),
      [done, record, all = recorder_, clock = clock_] {
        if (!done.is_done()) return false;
        all->finished(record, true, clock->time_of(done));
        return true;
      },
      [record, all = recorder_] { all->finished(record, false); });
}

/// Calls NCCL.
void NcclCollectives::call(const Collective& c, const std::string& title) {
  const Tensor &x = c.x, &out = c.out;
  switch (c.kind) {
    case Kind::all_reduce:
      return all_reduce(c, title);
    case Kind::broadcast:
      return check(nccl_.broadcast(x.data_ptr(), x.data_ptr(), bytes_of(x), ncclUint8, c.root,
                                   handle(), stream_.get()),
                   title);
    case Kind::reduce:
      return check(nccl_.reduce(x.data_ptr(), x.data_ptr(), count(x), nccl_data_type(x.dtype()),
                                reduction(c.op, x.dtype()), c.root, handle(), stream_.get()),
                   title);
    case Kind::all_gather:
      return check(nccl_.all_gather(x.data_ptr(), out.data_ptr(), bytes_of(x), ncclUint8, handle(),
                                    stream_.get()),
                   title);
    case Kind::reduce_scatter:
      return check(
          nccl_.reduce_scatter(x.data_ptr(), out.data_ptr(), count(out), nccl_data_type(x.dtype()),
                               reduction(c.op, x.dtype()), handle(), stream_.get()),
          title);
    case Kind::exchange:
      return exchange(c, title);
    case Kind::barrier:
    case Kind::send:
    case Kind::recv:
      break;  // on the host; NcclMessages
  }
}

void NcclCollectives::all_reduce(const Collective& c, const std::string& title) {
  const Tensor& x = c.x;
  if (c.algorithm != AllReduce::ring && has_op(c.op, x.dtype()))
    return check(nccl_.all_reduce(x.data_ptr(), x.data_ptr(), count(x), nccl_data_type(x.dtype()),
                                  reduction(c.op, x.dtype()), handle(), stream_.get()),
                 title);
  // Uses one segment at a time, one message each way: GPU links need no smaller chunks, and each
  // message is a kernel.
  RingOptions ring = ring_;
  ring.chunks_per_segment = 1;
  ring.window = 1;
  const std::int64_t segment = (x.numel() + world_size_ - 1) / world_size_;
  ring.chunk_bytes = static_cast<std::size_t>(segment * size_of(x.dtype()));
  auto operation =
      ring_all_reduce(*transport_, *scratch_, x.data_ptr(), x.numel(), x.dtype(), c.op, ring);
  while (operation->poll() != Poll::done) {
  }
}

void NcclCollectives::exchange(const Collective& c, const std::string& title) {
  const Tensors &from = c.from, &to = c.to;
  const auto me = static_cast<std::size_t>(rank_);
  if (from[me].defined() && from[me].numel() > 0) {
    const cuda::StreamGuard guard(stream_);
    copy_elements(to[me], from[me]);
  }
  check(nccl_.group_start(), title);
  // The group is always ended, even after an error (nccl_transport.cpp).
  ncclResult_t status = ncclSuccess;
  auto note = [&](ncclResult_t posted) {
    if (status == ncclSuccess || status == ncclInProgress) status = posted;
  };
  for (std::size_t r = 0; r < to.size(); ++r) {
    const int peer = static_cast<int>(r);
    if (r == me) continue;
    if (to[r].defined() && to[r].numel() > 0)
      note(nccl_.send(to[r].data_ptr(), bytes_of(to[r]), ncclUint8, peer, handle(), stream_.get()));
    if (from[r].defined() && from[r].numel() > 0)
      note(nccl_.recv(from[r].data_ptr(), bytes_of(from[r]), ncclUint8, peer, handle(),
                      stream_.get()));
  }
  const ncclResult_t ended = nccl_.group_end();
  check(status, title);
  check(ended, title);
}

}  // namespace rondo::dist
