#pragma once
// RankLosses: every rank's loss, known to all ranks, at no cost of its own.
//
// Whether one rank's loss is still finite concerns all: they must stop together, or the others wait
// for it. And the loss that a user wants to see is the mean over the ranks. So losses travel with
// the gradients, at the end of DDP's last bucket: three numbers for each rank, its loss, 1 if it
// had a batch, and how many of its backwards reached no parameter of the model. Each rank writes
// into its own places and 0 into the others', so that the average of each is what that rank wrote /
// N.

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "tensor/async_copy.h"
#include "tensor/tensor.h"

namespace rondo::dist {

/// "the loss is nan": without the sign, which nobody has chosen.
std::string loss_is(double loss);

class RankLosses {
 public:
  /// The world's numbers are for messages.
  RankLosses(int rank, std::vector<int> ranks_in_world);
  /// Elements that travel.
  static std::int64_t numel(int world_size) { return 3 * std::int64_t{world_size}; }

  /// This rank's in the next backward: one element, or undefined for 0.
  void set(const Tensor& loss) { loss_ = loss; }
  /// A backward of a micro-batch has been, and is not its step's last: its loss counts, too.
  void keep();
  /// The step is over.
  void drop_kept() { earlier_ = {}; }
  /// Into `place`, in the dtype of gradients; of a step of so many micro-batches. `missed`: how
  /// many backwards of this rank reached no parameter so far. A rank that has joined has no batch.
  void write(const Tensor& place, int micro_batches, bool has_joined, std::uint64_t missed);
  /// They have been averaged in `place`. On a GPU the numbers arrive some steps later, and nobody
  /// waits for them unless many are on the way.
  void averaged(const Tensor& place);
  /// The graph that averaged them was launched once more.
  void replayed();
  /// Throws CommError, on all ranks alike, where the ranks that had a batch have missed different
  /// numbers of backwards, as far as that has arrived: from there on the gradients of different
  /// steps would be averaged with each other.
  void check_in_step() const;
  /// Takes what has arrived, or all when `wait` says so.
  void take(bool wait = false);

  /// Of each rank, in the last step that has arrived.
  const std::vector<double>& losses() const { return losses_; }
  bool is_nobody_active() const;
  /// Over the ranks that had a batch.
  double mean() const;
  /// The means since the last call, oldest first.
  std::vector<double> take_means(bool wait);
  void forget_last_mean() { means_.pop_back(); }
  /// Throws Error naming the first rank whose loss was not finite, in the first step that has
  /// arrived and not been checked; where() ends the sentence.
  void check(const std::function<std::string()>& where);

 private:
  int rank_;
  std::vector<int> in_world_;
  Tensor loss_, earlier_;  // earlier_: the sum of this step's earlier micro-batches'
  Tensor place_;           // where the last all-reduce left them
  std::deque<AsyncCopy> arriving_;
  std::vector<double> losses_, is_active_, missed_, bad_, means_;
};

}  // namespace rondo::dist
