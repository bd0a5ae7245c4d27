#include "dist/communicator.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "dist/algorithms/recursive_doubling.h"
#include "dist/algorithms/ring_collectives.h"
#include "dist/dense.h"
#include "dist/device_collectives.h"
#include "dist/message_tags.h"
#include "dist/progress.h"
#include "dist/shared/node_memory.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Of a signature: ranks that ask for different ways would not meet.
std::int32_t way_of(AllReduce algorithm) {
  return algorithm == AllReduce::automatic ? -1 : static_cast<std::int32_t>(algorithm);
}

/// What the ranks' memory does where there is any.
bool is_for_memory(AllReduce algorithm) {
  return algorithm == AllReduce::automatic || algorithm == AllReduce::shared;
}

std::unique_ptr<Operation> all_reduce_in(NodeMemory& memory, Transport& transport, Scratch& scratch,
                                         const Signature& signature, const Tensor& x, ReduceOp op) {
  return shared_all_reduce(memory.space, memory, memory.peers, transport, scratch, signature,
                           x.data_ptr(), x.numel(), x.dtype(), op,
                           memory.place_of(x.data_ptr(), bytes_of(x)));
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
  ring.tag = static_cast<int>(sequence_++ % tags_of_collectives);
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
  const bool in_memory = memory_ != nullptr && is_for_memory(algorithm);
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
    auto begin = [=, this, memory = memory_](Scratch& scratch) {
      return all_reduce_in(*memory, *transport_, scratch, signature, x, op);
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
  if (memory_ == nullptr || !is_for_memory(options_.all_reduce)) return false;
  check_dense("all_reduce", x);
  check_reducible(x.dtype(), op);
  const std::uint64_t sequence = sequence_;
  const bool ran = progress_->run_now(
      rank_, x.impl_ptr(),
      [&](Scratch& scratch) {
        Signature signature = signature_of("all_reduce", x, op);
        signature.way = way_of(options_.all_reduce);
        return all_reduce_in(*memory_, *transport_, scratch, signature, x, op);
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
