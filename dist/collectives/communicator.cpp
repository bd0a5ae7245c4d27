#include "dist/collectives/communicator.h"

#include <algorithm>
#include <cstring>

#include "dist/collectives/algorithms/binomial_tree.h"
#include "dist/collectives/algorithms/ring_collectives.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/device_collectives.h"
#include "dist/collectives/message_tags.h"
#include "dist/collectives/progress.h"
#include "dist/collectives/sums.h"
#include "dist/collectives/tuner.h"
#include "dist/failure/side_channel.h"
#include "dist/transports/shared_memory/node_memory.h"
#include "tensor/environment.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Whether a tree, with few messages in sequence, is faster than a chain, with many concurrent
/// ones.
bool is_small(std::size_t bytes) { return bytes <= 32 << 10; }

}  // namespace

Communicator::Communicator(std::shared_ptr<Transport> transport, CommunicatorOptions options,
                           std::shared_ptr<FlightRecorder> recorder)
    : transport_(std::move(transport)),
      options_(std::move(options)),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()),
      recorder_(std::move(recorder)) {
  options_.check_collectives |= flag_from_environment("RONDO_CHECK_COLLECTIVES").value_or(false);
  require<CommError>(options_.node_of.empty() || std::ssize(options_.node_of) == world_size_,
                     "CommunicatorOptions::node_of has ", options_.node_of.size(),
                     " entries, but the number of ranks is ", world_size_);
  set_node_of(options_.node_of);
  has_background_thread_ =
      options_.background_thread && transport_->any_thread() && world_size_ > 1;
  progress_ =
      std::make_shared<Progress>(Progress::Options{.transport = transport_,
                                                   .timeout = options_.timeout,
                                                   .background_thread = has_background_thread_,
                                                   .recorder = recorder_});
  progress_->start();
}

// Work under way uses the other members, in the thread that polls it.
Communicator::~Communicator() {
  finish_comparisons();
  progress_->close();
}

const char* Communicator::backend() const { return transport_->name(); }

Work Communicator::start(Job job, bool wake) {
  auto state = std::make_shared<WorkState>();
  state->label = std::move(job.name);
  state->ready = std::move(job.ready);
  state->rank = rank_in_world();
  state->begin = job.is_checked || job.beside || world_size_ == 1
                     ? std::move(job.begin)
                     : [this, signature = job.signature, memory = memory_,
                        begin = std::move(job.begin)](ChunkBuffer& scratch) {
                         if (memory == nullptr)
                           return checked(*transport_, signature, [&] { return begin(scratch); });
                         return checked(memory->space, *transport_, signature,
                                        [&begin, &scratch] { return begin(scratch); });
                       };
  if (job.is_recorded && job.signature.name[0] != 0)
    state->record = recorder_->issued(job.signature, about_);
  state->finish = std::move(job.finish);
  state->failed = std::move(job.failed);
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

RingOptions Communicator::next_ring(const Signature& signature) {
  ++sequence_;
  RingOptions ring = options_.ring;
  ring.tag = signature.tag();
  return ring;
}

Signature Communicator::signature_of(const char* what, const Tensor& x, std::optional<ReduceOp> op,
                                     int root) const {
  Signature signature(what, sequence_);
  signature.set_shape(x.shape());
  signature.set_layout(x.suggested_format());
  signature.dtype = static_cast<std::int8_t>(x.dtype());
  if (op) signature.op = static_cast<std::int8_t>(*op);
  signature.root = root < 0 ? root : rank_in_world(root);
  return signature;
}

/// The name of a collective in messages: "all_reduce 17 of bucket 2 (…) of group {0, 1}".
std::string Communicator::title(const char* what, std::uint64_t sequence) const {
  return concat(what, ' ', sequence, about_.empty() ? "" : " of ", about_, group_);
}
std::string Communicator::title(const char* what) const { return title(what, sequence_); }

/// For gpu_. If it uses the host, its collectives on the host are counted instead.
DeviceCall Communicator::next_call(const Signature& signature) {
  DeviceCall call{title(signature.name), signature, about_};
  if (gpu_ == nullptr || !gpu_->is_by_way_of_host()) ++sequence_;
  return call;
}

/// Whether gpu_ handles x. In a world of one, no communication is needed.
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

Communicator::Job Communicator::reduce_job(const Tensor& x, int root, ReduceOp op) {
  check_dense("reduce", x);
  check_reducible(x.dtype(), op);
  check_peer("reduce", root);
  std::string name = title("reduce");
  const Signature signature = signature_of("reduce", x, op, root);
  RingOptions ring = next_ring(signature);
  if (rank_ == root) x.bump_version();
  // On its way to root, data is summed in a copy. Root can sum in x itself, unless sums are in f32.
  const bool in_place = rank_ == root && !Sums::are_wide(x.dtype(), op);
  const auto sums = std::make_shared<Sums>(x, op);
  auto begin = [=, this](ChunkBuffer& scratch) {
    void* data = in_place ? x.data_ptr() : sums->take();
    if (is_small(bytes_of(x)))
      return tree_reduce(*transport_, scratch, data, x.numel(), sums->dtype(), op, root, ring.tag);
    return chain_reduce(*transport_, scratch, data, x.numel(), sums->dtype(), op, root, ring);
  };
  auto finish = [=, this] {
    if (rank_ == root && !in_place) sums->give(x);
  };
  return {.name = std::move(name),
          .begin = std::move(begin),
          .finish = std::move(finish),
          .keep = sums,
          .signature = signature};
}
Work Communicator::reduce_async(const Tensor& x, int root, ReduceOp op) {
  if (!is_on_gpu("reduce", x)) return start(reduce_job(x, root, op));
  check_dense("reduce", x);
  check_reducible(x.dtype(), op);
  check_peer("reduce", root);
  if (rank_ == root) x.bump_version();
  DeviceCall call = next_call(signature_of("reduce", x, op, root));
  if (world_size_ == 1 || x.numel() == 0) return {};
  return compared(call.signature, [&] { return gpu_->reduce(std::move(call), x, root, op); });
}
void Communicator::reduce(const Tensor& x, int root, ReduceOp op) {
  if (is_on_gpu("reduce", x)) return reduce_async(x, root, op).wait();
  run(reduce_job(x, root, op));
}

Communicator::Job Communicator::broadcast_job(const Signature& signature, int root,
                                              std::shared_ptr<void> keep, void* data,
                                              std::size_t bytes) {
  std::string name = title("broadcast");
  RingOptions ring = next_ring(signature);
  return {.name = std::move(name),
          .begin =
              [=, this](ChunkBuffer& scratch) {
                if (is_small(bytes))
                  return tree_broadcast(*transport_, scratch, data, bytes, root, ring.tag);
                return chain_broadcast(*transport_, scratch, data, bytes, root, ring);
              },
          .keep = std::move(keep),
          .signature = signature};
}
Communicator::Job Communicator::broadcast_job(const Tensor& x, int root) {
  check_dense("broadcast", x);
  check_peer("broadcast", root);
  x.bump_version();
  return broadcast_job(signature_of("broadcast", x, {}, root), root, x.impl_ptr(), x.data_ptr(),
                       bytes_of(x));
}
Work Communicator::broadcast_async(const Tensor& x, int root) {
  if (!is_on_gpu("broadcast", x)) return start(broadcast_job(x, root));
  check_dense("broadcast", x);
  check_peer("broadcast", root);
  x.bump_version();
  DeviceCall call = next_call(signature_of("broadcast", x, {}, root));
  if (world_size_ == 1 || x.numel() == 0) return {};
  return compared(call.signature, [&] { return gpu_->broadcast(std::move(call), x, root); });
}
void Communicator::broadcast(const Tensor& x, int root) {
  if (is_on_gpu("broadcast", x)) return broadcast_async(x, root).wait();
  run(broadcast_job(x, root));
}

std::vector<int> Communicator::ranks_in_world() const {
  std::vector<int> all;
  for (int r = 0; r < world_size_; ++r) all.push_back(rank_in_world(r));
  return all;
}

void Communicator::barrier() {
  const std::uint64_t sequence = sequence_;
  if (memory_ != nullptr && progress_->run_now(
                                rank_in_world(), nullptr, Signature("barrier", sequence), about_,
                                [&](ChunkBuffer&) {
                                  return checked(memory_->space, *transport_,
                                                 Signature("barrier", sequence),
                                                 [] { return std::unique_ptr<Operation>(); });
                                },
                                [&] { return title("barrier", sequence); })) {
    ++sequence_;
    return;
  }
  std::string name = title("barrier");
  const Signature signature("barrier", sequence_);
  const int tag = next_ring(signature).tag;
  run({.name = std::move(name),
       .begin =
           [=, this](ChunkBuffer&) {
             // In shared memory, `checked` has already waited for all ranks, here as above.
             return memory_ != nullptr ? nullptr : dist::barrier(*transport_, tag);
           },
       .signature = signature});
}

void Communicator::open_side_channel(const SideChannelOptions& options) {
  const std::uint64_t sequence = sequence_;
  set_watch(std::make_shared<SideChannel>(*this, options));
  sequence_ = sequence;
}

void Communicator::set_watch(std::shared_ptr<Watch> watch) {
  watch_ = std::move(watch);
  progress_->set_watch(watch_,
                       group_.empty());  // a group's failure is reported by the world's watch
}

void Communicator::check_peer(const char* what, int peer) const {
  require<CommError>(
      0 <= peer && peer < world_size_, "rank ", rank_in_world(), ": ", what, ": rank ", peer,
      group_.empty() ? " does not exist in a world of " : " does not exist among the ", world_size_,
      group_);
}

std::string Communicator::broadcast_bytes(std::string bytes, int root) {
  check_peer("broadcast", root);
  const auto signature = [&](std::size_t count) {
    Signature s("broadcast", sequence_);
    s.set_shape({static_cast<std::int64_t>(count)});
    s.root = rank_in_world(root);
    return s;
  };
  auto size = std::make_shared<std::uint64_t>(bytes.size());
  run(broadcast_job(signature(sizeof *size), root, size, size.get(), sizeof *size));
  auto data = std::make_shared<std::string>(std::move(bytes));
  data->resize(*size);
  run(broadcast_job(signature(data->size()), root, data, data->data(), data->size()));
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
  // Sends `what`, too: another rank may call agree for something else.
  require_agreement(all_gather_bytes(concat(what, ' ', value)));
}

void Communicator::require_agreement(const std::vector<std::string>& texts) const {
  const auto shown = [&](int r) { return texts[r].substr(0, texts[r].find('\0')); };
  for (int r = 1; r < world_size_; ++r)
    require<CommError>(shown(r) == shown(0), "rank ", rank_in_world(r), " has ", shown(r),
                       " where rank ", rank_in_world(0), " has ", shown(0));
}

}  // namespace rondo::dist
