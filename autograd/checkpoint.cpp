#include "autograd/checkpoint.h"

#include <optional>
#include <utility>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/saved_tensor.h"
#include "tensor/random.h"

namespace rondo {
namespace {

/// The innermost checkpointed part that runs on this thread.
struct RunningPart {
  CheckpointedPart* part = nullptr;
  bool again = false;        // this is its second run
  bool recomputing = false;  // this part or one around it is in its second run
};
thread_local RunningPart running;

/// Sets `running` for a scope.
class RunScope {
 public:
  explicit RunScope(RunningPart now) : before_(std::exchange(running, now)) {}
  ~RunScope() { running = before_; }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  RunningPart before_;
};

}  // namespace

class CheckpointedPart : public std::enable_shared_from_this<CheckpointedPart> {
 public:
  CheckpointedPart(std::function<Tensors(const Tensors&)> f, const Tensors& inputs)
      : f_(std::move(f)), random_(default_generator().state()), autocast_(Autocast::types()) {
    for (const Tensor& x : inputs) {  // an outer checkpoint may number these saved tensors
      inputs_.emplace_back(x);
      wanted_.push_back(x.defined() && x.requires_grad());
    }
  }

  Tensors run(const Tensors& inputs) {
    const RunScope scope({this, false, is_recomputing()});
    Tensors outputs = f_(inputs);
    draws_ = default_generator().state() != random_;
    return outputs;
  }

  /// Numbers a tensor saved in the first run.
  std::size_t count(const Tensor& x) {
    entries_.push_back({.shape = x.shape(), .version = x.version()});
    return entries_.size() - 1;
  }

  /// Keeps a tensor saved in the second run.
  void keep(const Tensor& x) {
    require<AutogradError>(
        next_ < entries_.size() && entries_[next_].shape == x.shape(),
        "checkpoint: in its second run (in backward), the function saved a tensor of shape ",
        x.shape(), " as number ", next_, ", but ",
        next_ < entries_.size()
            ? concat("one of shape ", entries_[next_].shape, " in the first run")
            : std::string("no such tensor in the first run"));
    Entry& entry = entries_[next_++];
    require<AutogradError>(x.version() == entry.version, "checkpoint: a tensor of shape ",
                           x.shape(),
                           " that the function reads was modified in place (its version is ",
                           x.version(), ", but was ", entry.version, ")");
    if (!entry.dropped) entry.kept = {x.alias(), x.version()};
  }

  CheckpointEntry::Kept restore(std::size_t i) {
    if (!entries_[i].kept) run_again();
    return *entries_[i].kept;
  }

  void drop(std::size_t i) {
    entries_[i].dropped = true;
    entries_[i].kept.reset();
  }

 private:
  struct Entry {
    Dims shape;
    std::uint64_t version;
    bool dropped = false;
    std::optional<CheckpointEntry::Kept> kept = {};
  };

  void run_again() {
    Tensors inputs;
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      const Tensor x = inputs_[i].elements("checkpoint");
      inputs.push_back(x.defined() ? x.detach().requires_grad_(wanted_[i]) : x);
    }
    const GradModeGuard recording(true);
    const Autocast as_at_first(autocast_);
    std::optional<SameRandomNumbers> numbers;
    if (draws_) numbers.emplace(random_);
    const RunScope scope({this, true, true});
    next_ = 0;
    f_(inputs);
    require<AutogradError>(next_ == entries_.size(),
                           "checkpoint: in its second run (in backward), the function saved ",
                           next_, " tensors, but ", entries_.size(), " in the first run");
  }

  /// Restores an earlier state of default_generator for a scope.
  class SameRandomNumbers {
   public:
    explicit SameRandomNumbers(Generator::State then) : now_(default_generator().state()) {
      default_generator().set_state(then);
    }
    ~SameRandomNumbers() { default_generator().set_state(now_); }
    SameRandomNumbers(const SameRandomNumbers&) = delete;
    SameRandomNumbers& operator=(const SameRandomNumbers&) = delete;

   private:
    Generator::State now_;
  };

  std::function<Tensors(const Tensors&)> f_;
  std::vector<SavedTensor> inputs_;
  std::vector<bool> wanted_;  // for each input: whether it requires a gradient
  Generator::State random_;
  bool draws_ = false;
  AutocastTypes autocast_;
  std::vector<Entry> entries_;  // in the order in which they were saved
  std::size_t next_ = 0;        // the next entry in the second run
};

CheckpointEntry CheckpointEntry::save(const Tensor& x) {
  CheckpointEntry entry;
  if (running.part == nullptr) return entry;
  if (running.again) {
    running.part->keep(x);
    return entry;  // belongs to a tape that is discarded
  }
  entry.part_ = running.part->shared_from_this();
  entry.index_ = running.part->count(x);
  return entry;
}

CheckpointEntry::Kept CheckpointEntry::restore() const { return part_->restore(index_); }

void CheckpointEntry::drop() {
  if (part_) part_->drop(index_);
  part_.reset();
}

bool is_recomputing() { return running.recomputing; }

Tensors checkpoint(std::function<Tensors(const Tensors&)> f, const Tensors& inputs) {
  if (!GradMode::is_enabled()) return f(inputs);
  return std::make_shared<CheckpointedPart>(std::move(f), inputs)->run(inputs);
}

}  // namespace rondo
