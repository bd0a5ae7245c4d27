// Groups: a communicator of some ranks of another.
//
// A group's messages travel over the world's transport, between the same ranks, under tags of their
// own: group g uses those from g * Transport::tag_limit on. Two groups that share a rank must have
// different numbers, whoever made them; so the ranks that make one take a number above all that any
// of them has heard of.

#include <algorithm>
#include <numeric>

#include "dist/communicator.h"
#include "dist/device.h"
#include "dist/device_collectives.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

std::string text_of(const std::vector<int>& ranks) {
  std::string text;
  for (int r : ranks) text += concat(text.empty() ? "{" : ", ", r);
  return text.empty() ? "{}" : text + "}";
}

class GroupTransport final : public Transport {
 public:
  GroupTransport(std::shared_ptr<Transport> world, std::vector<int> ranks, int number)
      : world_(std::move(world)),
        ranks_(std::move(ranks)),
        first_tag_(number * tag_limit),
        rank_(static_cast<int>(std::ranges::find(ranks_, world_->rank()) - ranks_.begin())) {}

  const std::shared_ptr<Transport>& world() const { return world_; }
  int rank_in_world(int r) const { return ranks_[static_cast<std::size_t>(r)]; }

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(ranks_.size()); }
  const char* name() const override { return world_->name(); }
  bool any_thread() const override { return world_->any_thread(); }
  int max_tag() const override { return tag_limit - 1; }
  Arithmetic& arithmetic() override { return world_->arithmetic(); }

  Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    return world_->send(at(peer), first_tag_ + tag, data, bytes);
  }
  Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    return world_->recv(at(peer), first_tag_ + tag, data, bytes);
  }
  bool test(Request& request) override { return world_->test(request); }
  void abandon(Request& request) noexcept override { world_->abandon(request); }
  void check_peers() override { world_->check_peers(); }
  /// Of the whole world: the others of it would wait for this rank.
  void abort(int status) noexcept override { world_->abort(status); }

 private:
  int at(int peer) const {
    require<CommError>(0 <= peer && peer < world_size(), "there is no rank ", peer,
                       " in the group ", text_of(ranks_));
    return rank_in_world(peer);
  }

  std::shared_ptr<Transport> world_;
  std::vector<int> ranks_;  // of the world
  int first_tag_, rank_;
};

}  // namespace

std::shared_ptr<Communicator> Communicator::new_group(const std::vector<int>& ranks) {
  const std::string text = text_of(ranks);
  agree("the group", text);
  require<CommError>(!ranks.empty(), "new_group: a group of no ranks");
  for (int r : ranks) {
    check_peer("new_group", r);
    require<CommError>(std::ranges::count(ranks, r) == 1, "new_group: ", text, " names rank ", r,
                       " twice");
  }
  // A group of a group is one of the world as well.
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
  auto group = std::make_shared<Communicator>(
      std::make_shared<GroupTransport>(world, in_world, static_cast<int>(number)), options_);
  group->group_ = concat(" of group ", text_of(in_world));
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
