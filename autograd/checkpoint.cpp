#include "autograd/checkpoint.h"

#include <optional>
#include <utility>

#include "autograd/autocast.h"
#include "autograd/grad_mode.h"
#include "autograd/saved_tensor.h"
#include "tensor/random.h"

namespace rondo {
namespace {

/// The innermost part whose function runs on this thread, and how.
struct Running {
  CheckpointedPart* part = nullptr;
  bool again = false;        // its second run
  bool recomputing = false;  // the second run of this one or of one around it
};
thread_local Running running;

/// For a scope.
class RunScope {
 public:
  explicit RunScope(Running now) : before_(std::exchange(running, now)) {}
  ~RunScope() { running = before_; }
  RunScope(const RunScope&) = delete;
  RunScope& operator=(const RunScope&) = delete;

 private:
  Running before_;
};

}  // namespace

class CheckpointedPart : public std::enable_shared_from_this<CheckpointedPart> {
 public:
  CheckpointedPart(std::function<Tensors(const Tensors&)> f, const Tensors& inputs)
      : f_(std::move(f)), random_(default_generator().state()), autocast_(Autocast::types()) {
    for (const Tensor& x : inputs) {  // saved by whoever is around: an outer checkpoint
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

  /// A saving of the first run.
  std::size_t count(const Tensor& x) {
    entries_.push_back({.shape = x.shape(), .version = x.version()});
    return entries_.size() - 1;
  }

  /// A saving of the second run.
  void keep(const Tensor& x) {
    require<AutogradError>(
        next_ < entries_.size() && entries_[next_].shape == x.shape(),
        "checkpoint: run again in backward, the function saved a tensor of shape ", x.shape(),
        " as number ", next_, ", which ",
        next_ < entries_.size() ? concat("was of shape ", entries_[next_].shape, " at first")
                                : std::string("was not there at first"));
    Entry& entry = entries_[next_++];
    require<AutogradError>(x.version() == entry.version, "checkpoint: a tensor of shape ",
                           x.shape(),
                           " that the function reads was modified in place (it is at version ",
                           x.version(), ", at first it was at ", entry.version, ")");
    if (!entry.dropped) entry.kept = {x.alias(), x.version()};
  }

  CheckpointSlot::Kept restore(std::size_t i) {
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
    std::optional<CheckpointSlot::Kept> kept = {};
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
                           "checkpoint: run again in backward, the function saved ", next_,
                           " tensors, but ", entries_.size(), " at first");
  }

  /// default_generator as it was, for a scope.
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
  std::vector<bool> wanted_;  // which inputs are on the tape
  Generator::State random_;
  bool draws_ = false;
  AutocastTypes autocast_;
  std::vector<Entry> entries_;  // in the order of the savings
  std::size_t next_ = 0;        // of the second run
};

CheckpointSlot CheckpointSlot::save(const Tensor& x) {
  CheckpointSlot slot;
  if (running.part == nullptr) return slot;
  if (running.again) {
    running.part->keep(x);
    return slot;  // of a tape that is thrown away
  }
  slot.part_ = running.part->shared_from_this();
  slot.index_ = running.part->count(x);
  return slot;
}

CheckpointSlot::Kept CheckpointSlot::restore() const { return part_->restore(index_); }

void CheckpointSlot::drop() {
  if (part_) part_->drop(index_);
  part_.reset();
}

bool is_recomputing() { return running.recomputing; }

Tensors checkpoint(std::function<Tensors(const Tensors&)> f, const Tensors& inputs) {
  if (!GradMode::is_enabled()) return f(inputs);
  return std::make_shared<CheckpointedPart>(std::move(f), inputs)->run(inputs);
}

Tensor checkpoint(std::function<Tensor(const Tensor&)> f, const Tensor& x) {
  return checkpoint([f = std::move(f)](const Tensors& inputs) { return Tensors{f(inputs[0])}; },
                    Tensors{x})[0];
}

}  // namespace rondo
