#include "dist/collectives/communicator.h"

#include <cstring>

#include "dist/collectives/collective.h"
#include "dist/collectives/host_collectives.h"
#include "dist/failure/side_channel.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// What all_reduce uses unless the call names an algorithm. NCCL cannot reduce tensors of the CPU.
AllReduce default_algorithm(const Ranks& ranks, const Tensor& x) {
  const AllReduce algorithm = ranks.options().all_reduce;
  const bool is_on_cpu = x.defined() && x.device().is_cpu();
  return algorithm == AllReduce::nccl && is_on_cpu ? AllReduce::automatic : algorithm;
}

}  // namespace

Communicator::Communicator(std::shared_ptr<Transport> transport, CommunicatorOptions options,
                           std::shared_ptr<FlightRecorder> recorder)
    : Ranks(std::move(transport), std::move(options), std::move(recorder)) {}

Work Communicator::start(Collective&& c, bool waits) {
  if (!about_.empty()) c.about = about_;
  if (!group_.empty()) c.group = group_;
  c.validate(*this);
  CollectiveEngine* engine = engine_of(c);
  if (engine != nullptr) engine->check(c);
  c.sign(*this, c.is_message() ? 0 : sequence_++);
  c.bump_versions(rank_);
  if (engine != nullptr) return engine->start(std::move(c), waits);
  c.copy_own_part();
  return {};
}

void Communicator::run(Collective&& c) { start(std::move(c), true).wait(); }

void Communicator::all_reduce(const Tensor& x, ReduceOp op) {
  run(Collective::all_reduce(x, op, default_algorithm(*this, x)));
}
Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op) {
  return all_reduce_async(x, op, default_algorithm(*this, x));
}
Work Communicator::all_reduce_async(const Tensor& x, ReduceOp op, AllReduce algorithm) {
  return start(Collective::all_reduce(x, op, algorithm));
}
void Communicator::reduce(const Tensor& x, int root, ReduceOp op) {
  run(Collective::reduce(x, root, op));
}
Work Communicator::reduce_async(const Tensor& x, int root, ReduceOp op) {
  return start(Collective::reduce(x, root, op));
}
void Communicator::broadcast(const Tensor& x, int root) { run(Collective::broadcast(x, root)); }
Work Communicator::broadcast_async(const Tensor& x, int root) {
  return start(Collective::broadcast(x, root));
}
void Communicator::all_gather(const Tensor& out, const Tensor& x) {
  run(Collective::all_gather(out, x));
}
Work Communicator::all_gather_async(const Tensor& out, const Tensor& x) {
  return start(Collective::all_gather(out, x));
}
void Communicator::reduce_scatter(const Tensor& out, const Tensor& x, ReduceOp op) {
  run(Collective::reduce_scatter(out, x, op));
}
Work Communicator::reduce_scatter_async(const Tensor& out, const Tensor& x, ReduceOp op) {
  return start(Collective::reduce_scatter(out, x, op));
}
void Communicator::all_gather(const Tensors& parts, const Tensor& x) {
  run(Collective::all_gather(*this, parts, x));
}
Work Communicator::all_gather_async(const Tensors& parts, const Tensor& x) {
  return start(Collective::all_gather(*this, parts, x));
}
void Communicator::gather(const Tensors& parts, const Tensor& x, int root) {
  run(Collective::gather(*this, parts, x, root));
}
Work Communicator::gather_async(const Tensors& parts, const Tensor& x, int root) {
  return start(Collective::gather(*this, parts, x, root));
}
void Communicator::scatter(const Tensor& x, const Tensors& parts, int root) {
  run(Collective::scatter(*this, x, parts, root));
}
Work Communicator::scatter_async(const Tensor& x, const Tensors& parts, int root) {
  return start(Collective::scatter(*this, x, parts, root));
}
void Communicator::all_to_all(const Tensors& from, const Tensors& to) {
  run(Collective::all_to_all(from, to));
}
Work Communicator::all_to_all_async(const Tensors& from, const Tensors& to) {
  return start(Collective::all_to_all(from, to));
}
void Communicator::send(const Tensor& x, int peer, int tag) { run(Collective::send(x, peer, tag)); }
Work Communicator::send_async(const Tensor& x, int peer, int tag) {
  return start(Collective::send(x, peer, tag));
}
void Communicator::recv(const Tensor& x, int peer, int tag) { run(Collective::recv(x, peer, tag)); }
Work Communicator::recv_async(const Tensor& x, int peer, int tag) {
  return start(Collective::recv(x, peer, tag));
}

void Communicator::barrier() { run(Collective::barrier()); }

std::string Communicator::broadcast_bytes(std::string bytes, int root) {
  const auto sent = [&](const void* data, std::size_t count) {
    const Tensor x = Tensor::empty({static_cast<std::int64_t>(count)}, {.dtype = u8});
    if (rank_ == root && count > 0) std::memcpy(x.data_ptr(), data, count);
    Collective c = Collective::broadcast(x, root);
    c.is_bytes = true;
    run(std::move(c));
    return x;
  };
  std::uint64_t size = bytes.size();
  std::memcpy(&size, sent(&size, sizeof size).data_ptr(), sizeof size);
  const Tensor all = sent(bytes.data(), size);
  return {static_cast<const char*>(all.data_ptr()), size};
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

void Communicator::tune(std::size_t bytes) {
  const Label label(*this, "tuning");
  host_->tune(*this, bytes);
}

void Communicator::open_side_channel(const SideChannelOptions& options) {
  const std::uint64_t sequence = sequence_;
  set_watch(std::make_shared<SideChannel>(*this, options));
  sequence_ = sequence;
}

}  // namespace rondo::dist
