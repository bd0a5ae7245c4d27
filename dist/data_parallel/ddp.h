#pragma once
// DistributedDataParallel: N ranks train one model, each on its own part of every batch.
//
//   dist::DistributedDataParallel ddp(model, comm);
//   ...
//   Tensor loss = cross_entropy(ddp(images), labels);
//   ddp.set_loss(loss);
//   loss.backward();        // returns with .grad averaged over the ranks
//   ddp.check_loss();       // throws on all ranks when any rank's loss is not finite
//   optimizer.step();
//
// With equal parts, the average of the ranks' mean gradients is the gradient of the whole batch, so
// N ranks do what one would do with all of it (as long as no layer mixes the images of a batch).
// Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data Parallel Training".
//
// Note [Overlap]
// Gradients live in flat buckets. When backward completes a parameter's gradient, a hook counts its
// bucket down; a full bucket's all-reduce is issued at once, and the communicator's background
// thread runs it while backward goes on with the layers below. Buckets are issued in index order,
// never in the order in which they happen to fill up: ranks that issued different orders would wait
// for each other for ever. The last one, which has no layers below, leaves when backward has ended,
// and on the CPU the thread that ran backward reduces it, rather than wake another and wait.
// Backward itself waits for all of them before it returns, so there is nothing to call and nothing
// to forget.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/collectives/communicator.h"
#include "dist/data_parallel/bucket.h"
#include "dist/data_parallel/comm_hook.h"
#include "dist/data_parallel/rank_losses.h"
#include "nn/module.h"

namespace rondo::dist {

/// What a parameter is to DDP that the loss of some rank does not depend on.
enum class Unused : std::uint8_t {
  error,  // a mistake: backward throws, naming it
  zeros,  // it adds 0 to the average; where no rank uses it, its gradient stays undefined
};

struct DdpOptions {
  BucketOptions buckets = {};
  Unused unused = Unused::error;
  /// Every step reaches the parameters that the first one did. With Unused::zeros the ranks then
  /// tell each other once which those are, and no bucket waits for a gradient that will not come. A
  /// step that reaches others throws, naming one.
  bool static_graph = false;
  /// Without it, no bucket leaves before backward has ended: to measure what overlap is worth.
  bool overlap = true;
  /// Divide by the ranks that had a batch, instead of by all, when some have joined (`join`). On a
  /// GPU the host then waits for each step.
  bool divide_by_active_ranks = false;
};

/// When things happened in the last synchronised backward, on this rank's Clock.
struct StepTimeline {
  struct Bucket {
    std::int64_t bytes = 0;
    Clock::time_point ready;     // its last gradient was complete
    Clock::time_point launched;  // its all-reduce was issued,
    Clock::time_point started;   // begun,
    Clock::time_point finished;  // and over
  };
  Clock::time_point first_gradient;  // the first gradient of a parameter was complete
  Clock::time_point backward_end;    // the tape has been run; from here on, only waiting
  Clock::time_point synchronized;    // all buckets are averaged
  std::vector<Bucket> buckets;
};

class DistributedDataParallel {
 public:
  /// Compares names, shapes, strides and dtypes of all parameters and buffers over the ranks
  /// (CommError on all ranks, naming a rank and the first parameter that differ), then gives every
  /// rank rank 0's values. The model must outlive this. Collective.
  DistributedDataParallel(nn::Module& model, std::shared_ptr<Communicator> comm,
                          DdpOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  Tensor operator()(const Tensor& x) {
    expect_backward();
    return model_(x);
  }
  nn::Module& module() { return model_; }
  const DdpOptions& options() const { return options_; }
  Communicator& communicator() { return *comm_; }

  /// While it lives, backward only adds gradients up on this rank; the next backward after it
  /// averages the sums. For accumulating gradients over several batches.
  class NoSync {
   public:
    explicit NoSync(bool& sync) : sync_(sync), previous_(sync) { sync = false; }
    ~NoSync() { sync_ = previous_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    bool& sync_;
    bool previous_;
  };
  [[nodiscard]] NoSync no_sync() { return NoSync(sync_); }

  /// From here on a step has k backwards, each of the mean loss of a micro-batch: the first k - 1
  /// add up on this rank, the last averages over the k micro-batches and the ranks, so that N ranks
  /// with k micro-batches each do what one batch of all of them does. zero_grad once a step. Throws
  /// Error for k < 1, and in the middle of a step.
  ///
  ///   ddp.accumulate(4);
  ///   for (auto& [x, y] : loader) {
  ///     cross_entropy(ddp(x), y).backward();
  ///     if (!ddp.step_is_complete()) continue;
  ///     optimizer.step();
  ///     optimizer.zero_grad();
  ///   }
  void accumulate(int k);
  /// Gives up the step that is under way, after an exception in one of its micro-batches: its
  /// gradients and losses are dropped, and the next backward is the first of a step. All ranks call
  /// it, or none.
  void abandon_step();
  /// Whether the last backward ended a step.
  bool step_is_complete() const { return micro_batches_ == 0; }

  /// For a rank that has no more batches while others may have: takes part in their steps with
  /// gradients of 0 and calls step() after each, as they do, so that all keep equal weights;
  /// returns how many there were when all ranks have joined. Every rank calls it, once its batches
  /// are over. Gradients are still divided by the number of all ranks, as PyTorch's join does by
  /// default, unless divide_by_active_ranks says otherwise; losses are averaged over those that had
  /// a batch.
  /// A loss that is not finite throws here, too, as check_loss does. Nothing else that is
  /// collective may happen on the others meanwhile: no SyncBatchNorm, no evaluation.
  std::int64_t join(const std::function<void()>& step);

  /// Replaces the plain all-reduce of full buckets (dist/data_parallel/comm_hook.h); losses still
  /// travel as they are. Before the first backward; equal on all ranks. Collective. Throws
  /// CommError.
  void register_comm_hook(std::shared_ptr<CommHook> hook);
  CommHook* comm_hook() { return hook_.get(); }
  /// The parameters that the last synchronised backward of this rank did not reach.
  std::vector<std::string> unused_parameters() const;

  /// The loss (one element) of this rank, to travel in the last bucket of the next backward.
  void set_loss(const Tensor& loss) {
    expect_backward();
    losses_.set(loss.detach().reshape({1}));
  }
  void set_loss(double loss);
  /// What each rank's set_loss said before the last synchronised backward whose result has arrived
  /// (with `accumulate`, the mean over the step's backwards); equal on all ranks, 0 of one that has
  /// joined. On the CPU that is the last; a GPU's host does not wait for it, and knows
  /// it some steps later.
  const std::vector<double>& losses() const { return losses_.losses(); }
  double mean_loss() const { return losses_.mean(); }
  /// The mean over the ranks of each synchronised backward since the last call, oldest first, as
  /// far as they have arrived, or all when `wait` says so.
  std::vector<double> take_mean_losses(bool wait = false) { return losses_.take_means(wait); }
  /// Throws Error, on all ranks alike, naming the first rank whose loss was not finite, in the
  /// first backward that has arrived and not been checked; where() ends the sentence (" in epoch
  /// 3").
  void check_loss(const std::function<std::string()>& where = {}) { losses_.check(where); }
  void check_loss(const std::string& where) {
    check_loss([&] { return where; });
  }
  /// The last synchronised backward was captured, and its graph has been launched once more: its
  /// losses are on their way.
  void replayed();

  /// Gives every rank rank 0's buffers (running statistics), as is due before an evaluation, a
  /// checkpoint or a hash of the model. Collective.
  void broadcast_buffers();

  const StepTimeline& timeline() const { return timeline_; }
  /// Whether the all-reduce of the first bucket of the backward that is running has begun.
  bool first_bucket_started() const;
  /// Bytes of each bucket, in launch order; without the flags at the end of the last.
  std::vector<std::int64_t> bucket_bytes() const;

 private:
  struct Bucket {
    BucketPlan plan;
    std::string label;  // "bucket 2 of 8 (fc.weight … conv1.weight)"
    Tensor flat;        // the gradients, and in the last bucket the flags
    Tensor gradients;   // of it
    Tensor padded;      // gradients, and zeros that make it as many elements for each rank
    std::size_t pending = 0;
    std::vector<Work> works;
  };
  void make_buckets(const BucketOptions& options);
  void check_parameters();
  void settle();
  void expect_backward();
  void begin_backward();
  void begin_step();
  void gradient_ready(std::size_t parameter);
  void launch_full_buckets(std::size_t end);
  void launch(std::size_t index);
  void reduce_now(std::size_t index);
  void end_backward();
  void finish_buckets();
  void finish_hook();
  void leave_out(std::size_t parameter);
  void fill_in_unused();
  void check_static_graph();
  void agree_on_unused();
  std::vector<int> used_by_any_rank() const;
  void divide_by_active();
  void take_part_with_zeros();
  Tensor flags_place() const;
  std::string text_of_unused() const;

  nn::Module& model_;
  std::shared_ptr<Communicator> comm_;
  DdpOptions options_;
  std::shared_ptr<CommHook> hook_;
  std::vector<GradBucket> hook_buckets_;
  std::vector<nn::NamedTensor> parameters_;  // those that are trained, each once
  // All of the model's, and whether each was trained, when this was made.
  std::vector<std::pair<nn::NamedTensor, bool>> at_first_;
  std::vector<Tensor> slots_;  // their gradients' places in the buckets
  std::vector<std::size_t> bucket_of_;
  std::vector<bool> is_ready_;
  std::vector<bool> used_;  // by any backward of this step, is_ready_ by the last one
  // static_graph: those of this rank's first step; empty before it.
  std::vector<bool> reached_, reached_by_any_;
  std::vector<int> used_anywhere_;  // static_graph: by any rank's; likewise
  std::vector<HookHandle> hooks_;
  std::vector<Bucket> buckets_;
  std::size_t next_launch_ = 0;
  std::weak_ptr<void> backward_;  // alive while the engine runs a backward that is synchronised
  bool is_under_way_ = false;     // collectives of a backward that may have thrown
  bool sync_ = true;
  int accumulate_ = 1, micro_batches_ = 0;  // of a step, and how many have been
  bool has_joined_ = false;
  // Of backwards that reach no parameter: nothing else tells of them.
  bool expects_backward_ = false;
  std::uint64_t backwards_before_ = 0, missed_ = 0;
  // They travel at the end of the last bucket, with a hook in an all-reduce of their own.
  RankLosses losses_;
  Work flags_work_;
  StepTimeline timeline_;
};

}  // namespace rondo::dist
