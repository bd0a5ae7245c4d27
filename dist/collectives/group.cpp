// Groups: a communicator of some ranks of another communicator.
//
// A group's messages use the world's transport, with separate tags: group g uses the tags from g *
// Transport::tag_limit on. Two groups that share a rank must have different numbers, even if
// different ranks create them. Therefore the ranks that create a group choose a number above all
// that any of them knows of.

#include <algorithm>
#include <numeric>

#include "dist/collectives/algorithms/subset.h"
#include "dist/collectives/communicator.h"
#include "dist/collectives/device_collectives.h"
#include "dist/failure/watch.h"
#include "dist/launch/device.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// A group's transport, which keeps the world's transport alive.
class GroupTransport final : public SubsetTransport {
 public:
  GroupTransport(std::shared_ptr<Transport> world, std::vector<int> ranks, int number)
      : SubsetTransport(*world, std::move(ranks), number * tag_limit), world_(std::move(world)) {}
  const std::shared_ptr<Transport>& world() const { return world_; }

 private:
  std::shared_ptr<Transport> world_;
};

}  // namespace

std::shared_ptr<Communicator> Communicator::new_group(const std::vector<int>& ranks) {
  const std::string text = text_of(ranks);
  agree("the group", text);
  require<CommError>(!ranks.empty(), "new_group: the list of ranks is empty");
  for (int r : ranks) {
    check_rank(*this, "new_group", r);
    require<CommError>(std::ranges::count(ranks, r) == 1, "new_group: ", text, " names rank ", r,
                       " twice");
  }
  // A group of a group is a group of the world.
  std::shared_ptr<Transport> world = transport_;
  std::vector<int> in_world = ranks;
  if (auto parent = std::dynamic_pointer_cast<GroupTransport>(transport_)) {
    world = parent->world();
    for (int& r : in_world) r = parent->rank_in_world(r);
  }
  const Tensor newest = scalar(world->newest_group, {.dtype = i64});
  all_reduce_async(newest, ReduceOp::max, AllReduce::ring).wait();
  const std::int64_t number = newest.item<std::int64_t>() + 1;
  require<CommError>((number + 1) * Transport::tag_limit - 1 <= world->max_tag(),
                     "new_group: ", backend(), " has tags up to ", world->max_tag(),
                     ", too few for group ", number);
  world->newest_group = static_cast<int>(number);
  if (std::ranges::find(ranks, rank_) == ranks.end()) return nullptr;
  CommunicatorOptions options = this->options();
  options.node_of.clear();
  for (int r : ranks) {
    if (!node_of().empty()) options.node_of.push_back(node_of()[static_cast<std::size_t>(r)]);
  }
  auto group = std::make_shared<Communicator>(
      std::make_shared<GroupTransport>(world, in_world, static_cast<int>(number)),
      std::move(options), recorder_->of_group(text_of(in_world)));
  group->group_ = text_of(in_world);
  if (watch_ != nullptr) group->set_watch(watch_);  // first, since share_memory may wait for a rank
  if (wants_memory_) group->share_memory();
  if (gpu_ != nullptr) share_gpu(*group, gpu_->device());
  return group;
}

std::shared_ptr<Communicator> Communicator::duplicate() {
  std::vector<int> all(static_cast<std::size_t>(world_size_));
  std::iota(all.begin(), all.end(), 0);
  return new_group(all);
}

}  // namespace rondo::dist
