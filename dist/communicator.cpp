#include "dist/communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dist/algorithms/recursive_doubling.h"
#include "dist/algorithms/ring_collectives.h"
#include "dist/dense.h"
#include "dist/device_collectives.h"
#include "dist/progress.h"
#include "dist/shared/in_place.h"
#include "dist/shared/node_memory.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

// Tags below are for collectives, by sequence number; from here on for send and recv; the last for
// dist/run.cpp.
constexpr int message_tags = 16384;
constexpr int max_message_tag = 16000;

// One message, as an operation.
class Message final : public Operation {
 public:
  Message(Transport& transport, int peer, int tag, void* data, std::size_t bytes, bool is_send)
      : transport_(transport), peer_(peer), is_send_(is_send) {
    request_ =
        is_send ? transport.send(peer, tag, data, bytes) : transport.recv(peer, tag, data, bytes);
  }
  ~Message() override { transport_.abandon(request_); }
  Poll poll() override { return transport_.test(request_) ? Poll::done : Poll::idle; }
  std::string waiting_for() const override {
    return concat("rank ", peer_, is_send_ ? " to receive it" : " to send it");
  }

 private:
  Transport& transport_;
  int peer_;
  bool is_send_;
  Request request_;
};

/// Of a signature: ranks that ask for different ways would not meet.
std::int32_t way_of(AllReduce algorithm) {
  return algorithm == AllReduce::automatic ? -1 : static_cast<std::int32_t>(algorithm);
}

/// Whether two dense tensors share an element.
bool overlap(const Tensor& a, const Tensor& b) {
  const auto* p = static_cast<const char*>(a.data_ptr());
  const auto* q = static_cast<const char*>(b.data_ptr());
  return p < q + b.nbytes() && q < p + a.nbytes();
}

}  // namespace

AllReduce parse_all_reduce(std::string_view name) {
  if (name == "auto") return AllReduce::automatic;
  if (name == "shared") return AllReduce::shared;
  if (name == "ring") return AllReduce::ring;
  if (name == "doubling") return AllReduce::recursive_doubling;
  if (name == "nccl") return AllReduce::nccl;
  if (name == "mpi") return AllReduce::mpi;
  require<CommError>(
      name == "mpi_blocking", "\"", name,
      "\" is no all-reduce; there are auto, shared, ring, doubling, nccl, mpi and mpi_blocking");
  return AllReduce::mpi_blocking;
}

Communicator::Communicator(std::shared_ptr<Transport> transport, CommunicatorOptions options)
    : transport_(std::move(transport)),
      options_(options),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()) {
  bool thread = options_.background_thread && transport_->any_thread() && world_size_ > 1;
  progress_ = std::make_shared<Progress>(Progress::Options{
      .transport = transport_, .timeout = options_.timeout, .background_thread = thread});
  progress_->start();
}

// Work under way reads the rest of this.
Communicator::~Communicator() { progress_.reset(); }

const char* Communicator::backend() const { return transport_->name(); }

Work Communicator::start(Job job, bool wake) {
  auto state = std::make_shared<WorkState>();
  state->label = std::move(job.name);
  state->ready = std::move(job.ready);
  state->rank = rank_;
  state->begin =
      job.tag < 0 || world_size_ == 1
          ? std::move(job.begin)
          : [this, tag = job.tag, signature = job.signature, memory = memory_,
             begin = std::move(job.begin)](Scratch& scratch) {
              if (memory == nullptr)
                return checked(*transport_, tag, signature, [&] { return begin(scratch); });
              return checked(memory->space, *transport_, signature,
                             [&begin, &scratch] { return begin(scratch); });
            };
  state->finish = std::move(job.finish);
  state->keep = std::move(job.keep);
  state->progress = progress_;
  state->issue_time = Clock::now();
  if (job.beside) {
    progress_->submit_beside(state);
    return Work(state);
  }
  progress_->submit(state, wake);
  return Work(state);
}

void Communicator::run(Job job) { start(std::move(job), false).wait(); }

RingOptions Communicator::next_ring() {
  RingOptions ring = options_.ring;
  ring.tag = static_cast<int>(sequence_++ % message_tags);
  return ring;
}

Signature Communicator::signature_of(const char* what, const Tensor& x, std::optional<ReduceOp> op,
                                     int root) const {
  Signature signature(what, sequence_, x.numel());
  signature.dtype = static_cast<std::int32_t>(x.dtype());
  if (op) signature.op = static_cast<std::int32_t>(*op);
  signature.root = root;
  return signature;
}

std::string Communicator::next_name(const char* what) {
  return concat(what, ' ', sequence_++, group_);
}

/// Whether x is the business of gpu_. A world of one needs nobody.
bool Communicator::is_on_gpu(const char* what, const Tensor& x) const {
  require<CommError>(x.defined(), what, ": the tensor is undefined");
  if (x.device().is_cpu()) return false;
  require<DeviceError>(gpu_ != nullptr || world_size_ == 1, what, ": the tensor is on ", x.device(),
                       ", but this communicator has no GPU; call dist::use_device first");
  require<DeviceError>(gpu_ == nullptr || gpu_->device() == x.device(), what, ": the tensor is on ",
                       x.device(), ", but this rank's GPU is ",
                       gpu_ == nullptr ? x.device() : gpu_->device());
  return true;
}

Communicator::Job Communicator::all_reduce_job(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  const bool in_memory =
      memory_ != nullptr && (algorithm == AllReduce::automatic || algorithm == AllReduce::shared);
  require<CommError>(in_memory || algorithm != AllReduce::shared || world_size_ == 1,
                     "all_reduce: shared memory was asked for, but the ranks share none: ",
                     "they are on several machines or in several containers, or nobody has called "
                     "share_memory");
  const bool native = algorithm == AllReduce::mpi || algorithm == AllReduce::mpi_blocking;
  const bool is_doubling = algorithm == AllReduce::recursive_doubling ||
                           (algorithm == AllReduce::automatic &&
                            bytes_of(x) * std::bit_width(static_cast<unsigned>(world_size_ - 1)) <=
                                options_.small_bytes);
  require<CommError>(!native || std::strcmp(backend(), "mpi") == 0 || world_size_ == 1,
                     "all_reduce: MPI's own was asked for, but the backend is ", backend());
  x.bump_version();
  std::string name = concat("all_reduce ", sequence_, group_);
  Signature signature = signature_of("all_reduce", x, op);
  signature.way = way_of(algorithm);
  RingOptions ring = next_ring();
  if (in_memory) {
    const SharedPlace place = memory_->place_of(x.data_ptr(), bytes_of(x));
    auto begin = [=, this, memory = memory_](Scratch& scratch) {
      return shared_all_reduce(memory->space, *memory, memory->peers, *transport_, scratch,
                               signature, x.data_ptr(), x.numel(), x.dtype(), op, place);
    };
    return {.name = std::move(name), .begin = std::move(begin), .keep = memory_};
  }
  return {.name = std::move(name),
          .begin =
              [=, this](Scratch& scratch) {
                Transport& t = *transport_;
                if (world_size_ == 1 || x.numel() == 0) return std::unique_ptr<Operation>();
                if (native) {
                  auto operation = t.native_all_reduce(x.data_ptr(), x.numel(), x.dtype(), op,
                                                       algorithm == AllReduce::mpi_blocking);
                  if (operation) return operation;
                }
                if (is_doubling)
                  return recursive_doubling_all_reduce(t, scratch, x.data_ptr(), x.numel(),
                                                       x.dtype(), op, ring.tag);
                return ring_all_reduce(t, scratch, x.data_ptr(), x.numel(), x.dtype(), op, ring);
              },
          .signature = signature,
          .tag = ring.tag};
}

Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  if (!is_on_gpu("all_reduce", x)) {
    require<CommError>(algorithm != AllReduce::nccl, "all_reduce: NCCL was asked for, but the ",
                       "tensor is on the CPU");
    return start(all_reduce_job(x, op, algorithm));
  }
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  x.bump_version();
  std::string name = next_name("all_reduce");
  if (world_size_ == 1 || x.numel() == 0) return {};
  return gpu_->all_reduce(std::move(name), x, op, algorithm);
}
Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op) {
  // What is NCCL's on the GPU is ours on the CPU.
  const bool is_nccl = options_.all_reduce == AllReduce::nccl;
  const bool on_cpu = x.defined() && x.device().is_cpu();
  return all_reduce_async(x, op, is_nccl && on_cpu ? AllReduce::automatic : options_.all_reduce);
}
// In memory, and with nothing under way: without a job, a queue or a name.
bool Communicator::all_reduce_now(const Tensor& x, ReduceOp op) {
  const bool in_memory = memory_ != nullptr && (options_.all_reduce == AllReduce::automatic ||
                                                options_.all_reduce == AllReduce::shared);
  if (!in_memory) return false;
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  const std::uint64_t sequence = sequence_;
  const bool ran = progress_->run_now(
      rank_, x.impl_ptr(),
      [&](Scratch& scratch) {
        const SharedPlace place = memory_->place_of(x.data_ptr(), bytes_of(x));
        Signature signature = signature_of("all_reduce", x, op);
        signature.way = way_of(options_.all_reduce);
        return shared_all_reduce(memory_->space, *memory_, memory_->peers, *transport_, scratch,
                                 signature, x.data_ptr(), x.numel(), x.dtype(), op, place);
      },
      [&] { return concat("all_reduce ", sequence, group_); });
  if (!ran) return false;
  ++sequence_;
  x.bump_version();
  return true;
}

void Communicator::all_reduce(const Tensor& x, ReduceOp op) {
  if (is_on_gpu("all_reduce", x)) return all_reduce_async(x, op).wait();
  if (all_reduce_now(x, op)) return;
  run(all_reduce_job(
      x, op, options_.all_reduce == AllReduce::nccl ? AllReduce::automatic : options_.all_reduce));
}

Communicator::Job Communicator::reduce_job(const Tensor& x, int root, ReduceOp op) {
  check_dense("reduce", x);
  check_reducible(x.dtype(), op);
  check_peer("reduce", root);
  std::string name = concat("reduce ", sequence_, group_);
  const Signature signature = signature_of("reduce", x, op, root);
  RingOptions ring = next_ring();
  // What passes through a rank on its way to root is summed in a copy.
  std::shared_ptr<std::vector<char>> sums;
  if (rank_ == root) {
    x.bump_version();
  } else {
    sums = std::make_shared<std::vector<char>>(bytes_of(x));
  }
  return {.name = std::move(name),
          .begin =
              [=, this](Scratch& scratch) {
                void* data = sums ? sums->data() : x.data_ptr();
                if (sums && !sums->empty()) std::memcpy(data, x.data_ptr(), sums->size());
                return chain_reduce(*transport_, scratch, data, x.numel(), x.dtype(), op, root,
                                    ring);
              },
          .keep = sums,
          .signature = signature,
          .tag = ring.tag};
}
Work Communicator::reduce_async(const Tensor& x, int root, ReduceOp op) {
  if (!is_on_gpu("reduce", x)) return start(reduce_job(x, root, op));
  check_dense("reduce", x);
  check_reducible(x.dtype(), op);
  check_peer("reduce", root);
  if (rank_ == root) x.bump_version();
  std::string name = next_name("reduce");
  if (world_size_ == 1 || x.numel() == 0) return {};
  return gpu_->reduce(std::move(name), x, root, op);
}
void Communicator::reduce(const Tensor& x, int root, ReduceOp op) {
  if (is_on_gpu("reduce", x)) return reduce_async(x, root, op).wait();
  run(reduce_job(x, root, op));
}

Communicator::Job Communicator::broadcast_job(std::shared_ptr<void> keep, void* data,
                                              std::size_t bytes, int root) {
  check_peer("broadcast", root);
  std::string name = concat("broadcast ", sequence_, group_);
  Signature signature("broadcast", sequence_, static_cast<std::int64_t>(bytes));
  signature.root = root;
  RingOptions ring = next_ring();
  return {.name = std::move(name),
          .begin =
              [=, this](Scratch& scratch) {
                return chain_broadcast(*transport_, scratch, data, bytes, root, ring);
              },
          .keep = std::move(keep),
          .signature = signature,
          .tag = ring.tag};
}
Communicator::Job Communicator::broadcast_job(const Tensor& x, int root) {
  check_dense("broadcast", x);
  x.bump_version();
  return broadcast_job(x.impl_ptr(), x.data_ptr(), bytes_of(x), root);
}
Work Communicator::broadcast_async(const Tensor& x, int root) {
  if (!is_on_gpu("broadcast", x)) return start(broadcast_job(x, root));
  check_dense("broadcast", x);
  check_peer("broadcast", root);
  x.bump_version();
  std::string name = next_name("broadcast");
  if (world_size_ == 1 || x.numel() == 0) return {};
  return gpu_->broadcast(std::move(name), x, root);
}
void Communicator::broadcast(const Tensor& x, int root) {
  if (is_on_gpu("broadcast", x)) return broadcast_async(x, root).wait();
  run(broadcast_job(x, root));
}

void Communicator::check_all_gather(const Tensor& out, const Tensor& x) const {
  check_dense("all_gather", out);
  check_dense("all_gather", x);
  require<DTypeError>(out.dtype() == x.dtype(), "all_gather: ", x.dtype(), " into ", out.dtype());
  require_one_device("all_gather", {out, x});
  require<ShapeError>(out.numel() == x.numel() * world_size_, "all_gather: ", x.shape(), " of ",
                      world_size_, " ranks do not fill ", out.shape());
  out.bump_version();
}

InPlace Communicator::in_place(const Signature& signature, const Tensor& x,
                               std::function<std::unique_ptr<Operation>()> otherwise) const {
  return {.space = memory_->space,
          .windows = *memory_,
          .transport = *transport_,
          .signature = signature,
          .place = memory_->place_of(x.data_ptr(), bytes_of(x)),
          .otherwise = std::move(otherwise)};
}

Communicator::Job Communicator::all_gather_job(const Tensor& out, const Tensor& x) {
  check_all_gather(out, x);
  std::string name = concat("all_gather ", sequence_, group_);
  const Signature signature = signature_of("all_gather", x);
  RingOptions ring = next_ring();
  auto put_mine = [=, this] {
    char* mine = static_cast<char*>(out.data_ptr()) + bytes_of(x) * static_cast<std::size_t>(rank_);
    if (x.numel() > 0 && mine != x.data_ptr()) std::memcpy(mine, x.data_ptr(), bytes_of(x));
  };
  auto by_ring = [=, this](Scratch& scratch) {
    return ring_all_gather(*transport_, scratch, out.data_ptr(), bytes_of(x), ring);
  };
  auto begin = [=, this, memory = memory_](Scratch& scratch) {
    put_mine();
    if (memory == nullptr) return by_ring(scratch);
    InPlace all = in_place(signature, out, [by_ring, &scratch] { return by_ring(scratch); });
    return shared_all_gather(std::move(all), out.data_ptr(), bytes_of(x));
  };
  return {.name = std::move(name),
          .begin = std::move(begin),
          .keep = memory_,
          .signature = signature,
          .tag = memory_ == nullptr ? ring.tag : -1};
}
Work Communicator::all_gather_async(const Tensor& out, const Tensor& x) {
  if (!is_on_gpu("all_gather", x)) return start(all_gather_job(out, x));
  check_all_gather(out, x);
  std::string name = next_name("all_gather");
  if (x.numel() == 0) return {};
  if (world_size_ > 1) return gpu_->all_gather(std::move(name), out, x);
  copy_elements(x, out);
  return {};
}
void Communicator::all_gather(const Tensor& out, const Tensor& x) {
  if (is_on_gpu("all_gather", x)) return all_gather_async(out, x).wait();
  run(all_gather_job(out, x));
}

void Communicator::check_reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) const {
  check_dense("reduce_scatter", out);
  check_dense("reduce_scatter", x);
  check_reducible(x.dtype(), op);
  require<DTypeError>(out.dtype() == x.dtype(), "reduce_scatter: ", x.dtype(), " into ",
                      out.dtype());
  require_one_device("reduce_scatter", {out, x});
  require<ShapeError>(x.numel() == out.numel() * world_size_, "reduce_scatter: ", x.shape(),
                      " does not split into ", world_size_, " times ", out.shape());
  out.bump_version();
}

Communicator::Job Communicator::reduce_scatter_job(const Tensor& out, const Tensor& x,
                                                   ReduceOp op) {
  check_reduce_scatter(out, x, op);
  std::string name = concat("reduce_scatter ", sequence_, group_);
  const Signature signature = signature_of("reduce_scatter", x, op);
  RingOptions ring = next_ring();
  // On a ring the sums are formed in a copy, since they travel through every part of it.
  auto sums = std::make_shared<std::vector<char>>();
  auto by_ring = [=, this](Scratch& scratch) {
    sums->resize(bytes_of(x));
    if (!sums->empty()) std::memcpy(sums->data(), x.data_ptr(), sums->size());
    return ring_reduce_scatter(*transport_, scratch, sums->data(), out.numel(), x.dtype(), op,
                               ring);
  };
  auto begin = [=, this, memory = memory_](Scratch& scratch) {
    if (memory == nullptr) return by_ring(scratch);
    InPlace all = in_place(signature, x, [by_ring, &scratch] { return by_ring(scratch); });
    // Others read x until all have read it: what would be written there waits.
    if (overlap(out, x)) sums->resize(bytes_of(out));
    return shared_reduce_scatter(std::move(all), sums->empty() ? out.data_ptr() : sums->data(),
                                 out.numel(), x.dtype(), op);
  };
  return {.name = std::move(name),
          .begin = std::move(begin),
          .finish =
              [=, this] {
                if (sums->empty()) return;
                // From a ring all parts, from memory this rank's alone.
                const bool has_all = sums->size() == bytes_of(x) && world_size_ > 1;
                const std::size_t first =
                    has_all ? bytes_of(out) * static_cast<std::size_t>(rank_) : 0;
                std::memcpy(out.data_ptr(), sums->data() + first, bytes_of(out));
              },
          .keep = std::make_shared<std::pair<decltype(sums), decltype(memory_)>>(sums, memory_),
          .signature = signature,
          .tag = memory_ == nullptr ? ring.tag : -1};
}
Work Communicator::reduce_scatter_async(const Tensor& out, const Tensor& x, ReduceOp op) {
  if (!is_on_gpu("reduce_scatter", x)) return start(reduce_scatter_job(out, x, op));
  check_reduce_scatter(out, x, op);
  std::string name = next_name("reduce_scatter");
  if (x.numel() == 0) return {};
  if (world_size_ > 1) return gpu_->reduce_scatter(std::move(name), out, x, op);
  copy_elements(x, out);
  return {};
}
void Communicator::reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) {
  if (is_on_gpu("reduce_scatter", x)) return reduce_scatter_async(out, x, op).wait();
  run(reduce_scatter_job(out, x, op));
}

void Communicator::barrier() {
  const std::uint64_t sequence = sequence_;
  if (memory_ != nullptr && progress_->run_now(
                                rank_, nullptr,
                                [&](Scratch&) {
                                  return checked(memory_->space, *transport_,
                                                 Signature("barrier", sequence),
                                                 [] { return std::unique_ptr<Operation>(); });
                                },
                                [&] { return concat("barrier ", sequence, group_); })) {
    ++sequence_;
    return;
  }
  std::string name = concat("barrier ", sequence_, group_);
  const Signature signature("barrier", sequence_);
  int tag = next_ring().tag;
  run({.name = std::move(name),
       .begin = [=, this](Scratch&) { return dist::barrier(*transport_, tag); },
       .signature = signature,
       .tag = tag});
}

void Communicator::check_peer(const char* what, int peer) const {
  require<CommError>(0 <= peer && peer < world_size_, "rank ", rank_, ": ", what,
                     ": there is no rank ", peer, " in a world of ", world_size_);
}

std::string Communicator::check_message(const Tensor& x, int peer, int tag, bool is_send) const {
  const char* what = is_send ? "send" : "recv";
  check_dense(what, x);
  check_peer(what, peer);
  require<CommError>(peer != rank_, "rank ", rank_, ": ", what, ": the peer is this rank itself");
  require<CommError>(0 <= tag && tag < max_message_tag, "rank ", rank_, ": ", what, ": tag ", tag,
                     " is not within 0 … ", max_message_tag - 1);
  if (!is_send) x.bump_version();
  return concat(what, is_send ? " to rank " : " from rank ", peer, " with tag ", tag);
}

Communicator::Job Communicator::message_job(const Tensor& x, int peer, int tag, bool is_send) {
  return {.name = check_message(x, peer, tag, is_send),
          .begin = [=, this](Scratch&) -> std::unique_ptr<Operation> {
            return std::make_unique<Message>(*transport_, peer, message_tags + tag, x.data_ptr(),
                                             bytes_of(x), is_send);
          },
          .keep = x.impl_ptr(),
          .beside = true};
}
Work Communicator::send_async(const Tensor& x, int peer, int tag) {
  if (!is_on_gpu("send", x)) return start(message_job(x, peer, tag, true));
  return gpu_->send(check_message(x, peer, tag, true), x, peer, tag);
}
Work Communicator::recv_async(const Tensor& x, int peer, int tag) {
  if (!is_on_gpu("recv", x)) return start(message_job(x, peer, tag, false));
  return gpu_->recv(check_message(x, peer, tag, false), x, peer, tag);
}
void Communicator::send(const Tensor& x, int peer, int tag) { send_async(x, peer, tag).wait(); }
void Communicator::recv(const Tensor& x, int peer, int tag) { recv_async(x, peer, tag).wait(); }

std::string Communicator::broadcast_bytes(std::string bytes, int root) {
  auto size = std::make_shared<std::uint64_t>(bytes.size());
  run(broadcast_job(size, size.get(), sizeof *size, root));
  auto data = std::make_shared<std::string>(std::move(bytes));
  data->resize(*size);
  run(broadcast_job(data, data->data(), data->size(), root));
  return *data;
}

std::vector<std::string> Communicator::all_gather_bytes(const std::string& bytes) {
  std::vector<std::string> all;
  for (int root = 0; root < world_size_; ++root) {
    all.push_back(broadcast_bytes(root == rank_ ? bytes : std::string(), root));
  }
  return all;
}

void Communicator::agree(const std::string& what, const std::string& value) {
  auto values = all_gather_bytes(value);
  for (int r = 1; r < world_size_; ++r) {
    require<CommError>(values[r] == values[0], "rank ", r, " has ", what, " ", values[r],
                       " where rank 0 has ", what, " ", values[0]);
  }
}

}  // namespace rondo::dist
