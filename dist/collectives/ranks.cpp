#include "dist/collectives/ranks.h"

#include "dist/collectives/compared.h"
#include "dist/collectives/device_collectives.h"
#include "dist/collectives/host_collectives.h"
#include "tensor/environment.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

CommunicatorOptions with_environment(CommunicatorOptions options) {
  options.check_collectives |= flag_from_environment("RONDO_CHECK_COLLECTIVES").value_or(false);
  return options;
}

/// Whether x is on this rank's GPU. In a world of one, no communication is needed.
bool is_on_gpu(const Ranks& ranks, const char* what, const Tensor& x) {
  if (!x.defined() || x.device().is_cpu()) return false;
  const DeviceCollectives* gpu = ranks.gpu();
  require<DeviceError>(gpu != nullptr || ranks.world_size() == 1, what, ": the tensor is on ",
                       x.device(),
                       ", but this communicator has no GPU; call dist::use_device first");
  require<DeviceError>(gpu == nullptr || gpu->device() == x.device(), what, ": the tensor is on ",
                       x.device(), ", but this rank's GPU is ",
                       gpu == nullptr ? x.device() : gpu->device());
  return true;
}

}  // namespace

Ranks::Ranks(std::shared_ptr<Transport> transport, CommunicatorOptions options,
             std::shared_ptr<FlightRecorder> recorder)
    : transport_(std::move(transport)),
      rank_(transport_->rank()),
      world_size_(transport_->world_size()),
      recorder_(std::move(recorder)),
      host_(std::make_unique<HostCollectives>(transport_, with_environment(std::move(options)),
                                              recorder_)) {}

// Work under way uses the other members, in the thread that polls it.
Ranks::~Ranks() {
  if (compared_ != nullptr) compared_->finish();
  host_->close();
}

std::vector<int> Ranks::ranks_in_world() const {
  std::vector<int> all;
  for (int r = 0; r < world_size_; ++r) all.push_back(rank_in_world(r));
  return all;
}

const CommunicatorOptions& Ranks::options() const { return host_->options(); }
bool Ranks::shares_memory() const { return host_->memory() != nullptr; }

void Ranks::attach(std::shared_ptr<DeviceCollectives> gpu) {
  gpu_ = std::move(gpu);
  compared_.reset();
  if (world_size_ > 1 && !gpu_->is_by_way_of_host())
    compared_ = std::make_unique<ComparedCollectives>(*host_, gpu_);
}

const char* Ranks::comparison() const { return ComparedCollectives::when(*host_); }

/// Null if nothing has to be sent.
CollectiveEngine* Ranks::engine_of(const Collective& c) const {
  const bool on_gpu = is_on_gpu(*this, c.name, c.any_tensor());
  // A rank without tensors in an exchange does not know whether the other ranks' are on GPUs.
  if (compared_ != nullptr && c.kind == Collective::Kind::exchange) return compared_.get();
  if (!on_gpu) return host_.get();
  if (c.is_local(world_size_)) return nullptr;
  return compared_ != nullptr ? compared_.get() : static_cast<CollectiveEngine*>(gpu_.get());
}

void Ranks::set_watch(std::shared_ptr<Watch> watch) {
  watch_ = std::move(watch);
  // A group's failure is reported by the world's watch.
  host_->progress().set_watch(watch_, group_.empty());
}

void check_rank(const Ranks& ranks, const char* what, int rank) {
  const std::string& group = ranks.group();
  require<CommError>(
      0 <= rank && rank < ranks.world_size(), "rank ", ranks.rank_in_world(), ": ", what, ": rank ",
      rank, group.empty() ? " does not exist in a world of " : " does not exist among the ",
      ranks.world_size(), group.empty() ? "" : " of group ", group);
}

}  // namespace rondo::dist
