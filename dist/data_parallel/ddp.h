#pragma once
// DistributedDataParallel: N ranks train one model, each on its own part of every batch.
//
//   dist::DDP ddp(model, comm);
//   ...
//   Tensor loss = cross_entropy(ddp(images), labels);
//   ddp.set_loss(loss);
//   loss.backward();        // afterwards .grad is averaged over the ranks
//   ddp.check_loss();       // throws on all ranks if any rank's loss is not finite
//   optimizer.step();
//
// With equal parts, the average of the ranks' mean gradients is the gradient of the whole batch. So
// N ranks compute what one rank would compute with the whole batch (as long as no layer mixes the
// images of a batch). Li et al. 2020, "PyTorch Distributed: Experiences on Accelerating Data
// Parallel Training".
//
// Note [Overlap]
// Gradients are stored in flat buckets. When backward completes a parameter's gradient, a hook
// decrements the counter of its bucket. When a bucket is full, its all-reduce is issued at once,
// and the communicator's background thread runs it while backward continues with the layers below.
//
// Buckets are issued in index order, not in the order in which they become full: if ranks issued
// them in different orders, they would wait for each other forever.
//
// The last bucket has no layers below to overlap with: it is issued when backward has ended. On the
// CPU, the thread that ran backward reduces it, since waking another thread and waiting for it
// would take longer. Backward waits for all buckets before it returns. So the caller has no
// function to call, and cannot forget it.
//
// Read next: dist/transports/transport.h, then dist/README.md.

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dist/collectives/communicator.h"
#include "dist/data_parallel/bucket.h"
#include "dist/data_parallel/comm_hook.h"
#include "dist/data_parallel/model_check.h"
#include "dist/data_parallel/rank_losses.h"
#include "nn/module.h"

namespace rondo::dist {

/// What DDP does with a parameter on which the loss of some rank does not depend.
enum class Unused : std::uint8_t {
  error,  // it is a mistake: backward throws an error that names it
  zeros,  // it adds 0 to the average; if no rank uses it, its gradient stays undefined
};

struct DdpOptions {
  BucketOptions buckets = {};
  Unused unused = Unused::error;
  /// The caller promises that every step reaches the same parameters as the first one. With
  /// Unused::zeros the ranks then tell each other only once which these are, and no bucket waits
  /// for a gradient that will not come. A step that reaches other parameters throws an error that
  /// names one.
  bool static_graph = false;
  /// If false, no bucket is issued before backward has ended: use it to measure the benefit of
  /// overlap.
  bool overlap = true;
  /// After some ranks have joined (`join`), divide by the number of ranks that had a batch, instead
  /// of by the number of all ranks. On a GPU the host then waits for each step.
  bool divide_by_active_ranks = false;
};

/// The times of the events in the last synchronised backward, on this rank's Clock.
struct StepTimeline {
  struct Bucket {
    std::int64_t bytes = 0;
    Clock::time_point ready;     // its last gradient was complete
    Clock::time_point launched;  // its all-reduce was issued
    Clock::time_point started;   // its all-reduce began
    Clock::time_point finished;  // its all-reduce was complete
  };
  Clock::time_point first_gradient;  // the first gradient of a parameter was complete
  Clock::time_point backward_end;    // the engine has run the tape; only waiting follows
  Clock::time_point synchronized;    // all buckets are averaged
  std::vector<Bucket> buckets;
};

class DistributedDataParallel {
 public:
  /// Compares names, shapes, strides and dtypes of all parameters and buffers over the ranks, then
  /// gives every rank rank 0's values. If they differ, all ranks throw CommError that names a rank
  /// and the first parameter that differs. The model must outlive this object. Collective.
  DistributedDataParallel(nn::Module& model, std::shared_ptr<Communicator> comm,
                          DdpOptions options = {});
  ~DistributedDataParallel();
  DistributedDataParallel(const DistributedDataParallel&) = delete;
  DistributedDataParallel& operator=(const DistributedDataParallel&) = delete;

  Tensor operator()(const Tensor& x) {
    expect_backward();
    return model_(x);
  }
  void operator()(...) = delete;  // other arguments: dist::DDP ddp(model, comm)
  nn::Module& module() { return model_; }

  /// The model's own: names and state dict do not begin with "module.", as those of PyTorch's
  /// wrapper do. So the state dict of a wrapped model and of the model alone are the same.
  Tensors parameters() { return model_.parameters(); }
  std::vector<nn::NamedTensor> named_parameters() { return model_.named_parameters(); }
  std::vector<nn::NamedTensor> named_buffers() { return model_.named_buffers(); }
  nn::StateDict state_dict() { return model_.state_dict(); }
  /// Loads on this rank: all ranks must load the same.
  nn::Module::LoadReport load_state_dict(const nn::StateDict& state,
                                         nn::Module::LoadOptions options) {
    return model_.load_state_dict(state, options);
  }
  nn::Module::LoadReport load_state_dict(const nn::StateDict& state) {
    return model_.load_state_dict(state);
  }
  DistributedDataParallel& train(bool on = true) {
    model_.train(on);
    return *this;
  }
  DistributedDataParallel& eval() { return train(false); }
  bool is_training() const { return model_.is_training(); }
  /// Also zeroes the gradients of ZeroSharding's pieces, unlike the model's own zero_grad.
  void zero_grad();

  const DdpOptions& options() const { return options_; }
  Communicator& communicator() { return *comm_; }

  /// While a NoSync lives, backward only accumulates gradients on this rank. The first backward
  /// after it averages the accumulated gradients. Use it to accumulate gradients over several
  /// batches.
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

  /// From here on a step has k backwards, each of the mean loss of a micro-batch. The first k - 1
  /// accumulate on this rank; the last one averages over the k micro-batches and the ranks. So N
  /// ranks with k micro-batches each compute what one batch of all of them gives. Call zero_grad
  /// once per step. Collective. Throws CommError on all ranks if they pass different k, and Error
  /// for k < 1 and in the middle of a step.
  ///
  ///   ddp.accumulate(4);
  ///   for (auto& [x, y] : loader) {
  ///     cross_entropy(ddp(x), y).backward();
  ///     if (!ddp.step_is_complete()) continue;
  ///     optimizer.step();
  ///     optimizer.zero_grad();
  ///   }
  void accumulate(int k);
  /// The same without comparing the ranks, which then send nothing: for a training loop that has
  /// compared its own options. The last step of a rank with fewer batches may have a smaller k.
  void set_micro_batches(int k);
  /// Gives up the step under way, after an exception in one of its micro-batches. Its gradients and
  /// losses are dropped, and the next backward is the first of a step. All ranks must call it, or
  /// none.
  void abandon_step();
  /// Whether the last backward completed a step.
  bool step_is_complete() const { return micro_batches_ == 0; }

  /// For a rank that has no more batches while other ranks may have some. Every rank calls it when
  /// its batches are used up. The rank takes part in the others' steps with gradients of 0, and
  /// calls step() after each, as they do, so that all weights stay equal. When all ranks have
  /// joined, it returns the number of these steps.
  ///
  /// Gradients are still divided by the number of all ranks, as in PyTorch's join, unless
  /// divide_by_active_ranks is set. Losses are averaged over the ranks that had a batch. A loss
  /// that is not finite throws, as in check_loss. During join the other ranks must not run any
  /// other collective: no SyncBatchNorm, no evaluation.
  std::int64_t join(const std::function<void()>& step);

  /// Replaces the plain all-reduce of full buckets (dist/data_parallel/comm_hook.h); losses are not
  /// compressed. Call it before the first backward, with the same hook on all ranks. Collective.
  /// Throws CommError.
  void register_comm_hook(std::shared_ptr<CommHook> hook);
  CommHook* comm_hook() { return hook_.get(); }
  /// The parameters that this rank's last synchronised backward did not reach.
  std::vector<std::string> unused_parameters() const;

  /// Sets this rank's loss (one element), which the last bucket of the next backward sends.
  void set_loss(const Tensor& loss) {
    expect_backward();
    losses_.set(loss.detach().reshape({1}));
  }
  void set_loss(double loss);
  /// Each rank's loss, as passed to set_loss, for the last synchronised backward whose result has
  /// arrived; equal on all ranks. With `accumulate` it is the mean over the step's backwards. It is
  /// 0 for a rank that has joined. On the CPU the result of the last backward has always arrived;
  /// on a GPU the host does not wait for it, and gets it some steps later.
  const std::vector<double>& losses() const { return losses_.losses(); }
  double mean_loss() const { return losses_.mean(); }
  /// For each synchronised backward since the last call, oldest first, the mean loss over the
  /// ranks. Returns those that have arrived, or, with `wait`, waits for all.
  std::vector<double> take_mean_losses(bool wait = false) { return losses_.take_means(wait); }
  /// Throws Error, on all ranks, if a rank's loss was not finite. The error names the first such
  /// rank, in the first backward that has arrived and has not been checked. where() ends the
  /// sentence (" in epoch 3").
  void check_loss(const std::function<std::string()>& where = {}) { losses_.check(where); }
  void check_loss(const std::string& where) {
    check_loss([&] { return where; });
  }
  /// Call it after launching a graph that has captured the last synchronised backward. Its losses
  /// are then expected.
  void replayed();

  /// Gives every rank rank 0's buffers (running statistics). Call it before an evaluation, a
  /// checkpoint or a hash of the model. Collective.
  void broadcast_buffers();

  const StepTimeline& timeline() const { return timeline_; }
  /// Whether the all-reduce of the first bucket has begun in the backward that is running.
  bool first_bucket_started() const;
  /// Bytes of each bucket, in launch order, without the flags at the end of the last one.
  std::vector<std::int64_t> bucket_bytes() const;

 protected:
  /// Called before each forward, to detect a backward that reaches no parameter.
  void expect_backward();

 private:
  struct Bucket {
    BucketPlan plan;
    std::string label;  // "bucket 2 of 8 (fc.weight … conv1.weight)"
    Tensor flat;        // the gradients; in the last bucket the flags follow them
    Tensor gradients;   // view of flat without the flags
    Tensor padded;  // the gradients and zeros, so that each rank has an equal number of elements
    std::size_t pending = 0;
    std::vector<Work> works;
  };
  void make_buckets(const BucketOptions& options);
  void settle();
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
  std::vector<nn::NamedTensor> parameters_;  // the trainable ones, each once
  KnownParameters known_;
  std::vector<Tensor> slots_;  // the places of their gradients in the buckets
  std::vector<std::size_t> bucket_of_;
  std::vector<bool> is_ready_;
  std::vector<bool> used_;  // by any backward of this step; is_ready_ is for the last backward
  // For static_graph: the parameters reached in this rank's first step; empty before it.
  std::vector<bool> reached_, reached_by_any_;
  std::vector<int> used_anywhere_;  // likewise, by any rank
  std::vector<HookHandle> hooks_;
  std::vector<Bucket> buckets_;
  std::size_t next_launch_ = 0;
  std::weak_ptr<void> backward_;  // alive while the engine runs a backward that is synchronised
  bool is_under_way_ = false;     // collectives of a backward, which may have thrown
  bool sync_ = true;
  int accumulate_ = 1, micro_batches_ = 0;  // per step; how many have run
  bool has_joined_ = false;
  // These detect backwards that reach no parameter, of which no hook is called.
  bool expects_backward_ = false;
  std::uint64_t backwards_before_ = 0, missed_ = 0;
  // The losses are sent at the end of the last bucket; with a comm hook, in a separate all-reduce.
  RankLosses losses_;
  Work flags_work_;
  StepTimeline timeline_;
};

/// DistributedDataParallel of a model whose own type M is known. So it takes the arguments of the
/// model's forward, and returns its result, whatever they are:
///
///   dist::DDP ddp(net, comm);
///   auto [boxes, scores] = ddp(images, masks);
template <std::derived_from<nn::Module> M>
class DDP final : public DistributedDataParallel {
 public:
  DDP(M& model, std::shared_ptr<Communicator> comm, DdpOptions options = {})
      : DistributedDataParallel(model, std::move(comm), options), model_(model) {}

  template <class... Args>
  requires std::invocable<M&, Args...>
  auto operator()(Args&&... args) {
    expect_backward();
    return model_(std::forward<Args>(args)...);
  }
  M& module() { return model_; }

 private:
  M& model_;
};

}  // namespace rondo::dist
