#pragma once
// RankLosses: gives each rank the losses of all ranks, without messages of its own.
//
// If one rank's loss is not finite, all ranks must stop together; otherwise the other ranks would
// wait for it. Users want to see the mean loss of all ranks. Therefore losses are sent with the
// gradients, at the end of DDP's last bucket. There are three numbers for each rank: its loss, 1 if
// it had a batch, and how many of its backwards reached no parameter of the model. Each rank writes
// its own three numbers and zeros for all others, so the average of each is the rank's number
// divided by N.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "tensor/async_copy.h"
#include "tensor/tensor.h"

namespace rondo::dist {

/// "the loss is nan": without a sign, which has no meaning.
std::string loss_is(double loss);

class RankLosses {
 public:
  /// ranks_in_world are the numbers that messages use.
  RankLosses(int rank, std::vector<int> ranks_in_world);
  /// How many elements are sent.
  static std::int64_t numel(int world_size) { return 3 * std::int64_t{world_size}; }

  /// Sets this rank's loss for the next backward: one element, or undefined for 0.
  void set(const Tensor& loss) { loss_ = loss; }
  /// Call it after the backward of a micro-batch that is not its step's last: its loss counts, too.
  void keep();
  /// Call it at the end of the step.
  void drop_kept() { earlier_ = {}; }
  /// Writes this rank's numbers into `place`, in the dtype of the gradients. `micro_batches`: how
  /// many the step has. `missed`: how many backwards of this rank reached no parameter so far. A
  /// rank that has joined has no batch.
  void write(const Tensor& place, int micro_batches, bool has_joined, std::uint64_t missed);
  /// Call it when `place` has been averaged. On a GPU the host gets the numbers some steps later,
  /// and waits for them only if many are on the way.
  void averaged(const Tensor& place);
  /// Call it after the launch of a graph that averages them again.
  void replayed();
  /// Throws CommError on all ranks if ranks that had a batch have missed different numbers of
  /// backwards: they would average gradients of different steps. Uses the numbers that have
  /// arrived.
  void check_in_step() const;
  /// Takes the numbers that have arrived; with `wait`, waits for all.
  void take(bool wait = false);

  /// Each rank's loss in the last step that has arrived.
  const std::vector<double>& losses() const { return losses_; }
  bool is_nobody_active() const;
  /// The mean over the ranks that had a batch.
  double mean() const;
  /// The means since the last call, oldest first.
  std::vector<double> take_means(bool wait);
  void forget_last_mean() { means_.pop_back(); }
  /// Checks the first step that has arrived and was not checked before. Throws Error that names the
  /// first rank whose loss was not finite; where() ends the sentence.
  void check(const std::function<std::string()>& where);

 private:
  int rank_;
  std::vector<int> in_world_;
  Tensor loss_, earlier_;  // earlier_: the sum over this step's earlier micro-batches
  Tensor place_;           // the result of the last all-reduce
  std::deque<AsyncCopy> arriving_;
  std::vector<double> losses_, is_active_, missed_, bad_, means_;
};

}  // namespace rondo::dist
