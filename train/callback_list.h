#pragma once
// CallbackList: the callbacks of a run as one (Keras's name), as train::fit uses them.

#include <functional>
#include <memory>
#include <vector>

#include "dist/collectives/communicator.h"
#include "train/callback.h"

namespace rondo::train {

class CallbackList {
 public:
  /// `on_epoch`, where there is one, is called after the others.
  CallbackList(std::vector<std::shared_ptr<Callback>> callbacks,
               std::function<bool(const EpochReport&)> on_epoch);

  void on_train_begin(std::int64_t epochs);
  void on_step_end(const StepReport& step);
  /// Whether training goes on: for all of them, on all ranks. Each is told, whatever another says.
  /// Collective, where there is one.
  bool on_epoch_end(const EpochReport& report, dist::Communicator& comm);
  void on_train_end(const FitResult& result);

  /// Adds to a checkpoint's metadata what they must remember, and gives it back to them.
  void save(io::Metadata& metadata) const;
  void restore(const io::Metadata& metadata);

 private:
  std::vector<std::shared_ptr<Callback>> callbacks_;
};

}  // namespace rondo::train
