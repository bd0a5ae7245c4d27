#pragma once
// CallbackList: all callbacks of a run (Keras's name). train::fit uses it.

#include <functional>
#include <memory>
#include <vector>

#include "dist/collectives/communicator.h"
#include "train/callback.h"

namespace rondo::train {

class CallbackList {
 public:
  /// `on_epoch` may be empty; it is called after the others.
  CallbackList(std::vector<std::shared_ptr<Callback>> callbacks,
               std::function<bool(const EpochReport&)> on_epoch);

  void on_train_begin(std::int64_t epochs);
  void on_step_end(const StepReport& step);
  /// Returns false if any callback on any rank returned false. Calls all of them, whatever another
  /// returns. Collective if `comm` has more than one rank.
  bool on_epoch_end(const EpochReport& report, dist::Communicator& comm);
  void on_train_end(const FitResult& result);

  /// Adds the state of the callbacks to a checkpoint's metadata, and restores it.
  void save(io::Metadata& metadata) const;
  void restore(const io::Metadata& metadata);

 private:
  std::vector<std::shared_ptr<Callback>> callbacks_;
};

}  // namespace rondo::train
