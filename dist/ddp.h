#pragma once
// DistributedDataParallel: N ranks train one model, each on its own part of every batch.
//
//   dist::DistributedDataParallel ddp(model, comm);
//   ...
//   Tensor loss = cross_entropy(ddp(images), labels);
//   ddp.set_flag(loss);
//   loss.backward();        // returns with .grad averaged over the ranks
//   ddp.check_flag();       // throws on all ranks when any rank's loss is not finite
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
// for each other for ever. Backward itself waits for the last of them before it returns, so there
// is nothing to call and nothing to forget.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dist/bucket.h"
#include "dist/communicator.h"
#include "nn/module.h"
#include "tensor/async_copy.h"

namespace rondo::dist {

struct DdpOptions {
  BucketOptions buckets = {};
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

  Tensor operator()(const Tensor& x) { return model_(x); }
  nn::Module& module() { return model_; }
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

  /// The loss (one element) of this rank, to travel in the last bucket of the next backward.
  void set_flag(const Tensor& loss) { flag_ = loss.detach().reshape({1}); }
  void set_flag(double loss);
  /// What each rank's set_flag said before the last synchronised backward whose result has arrived;
  /// equal on all ranks. On the CPU that is the last; a GPU's host does not wait for it, and knows
  /// it some steps later.
  const std::vector<double>& losses() const { return losses_; }
  double mean_loss() const;
  /// The mean over the ranks of each synchronised backward since the last call, oldest first, as
  /// far as they have arrived, or all when `wait` says so.
  std::vector<double> take_mean_losses(bool wait = false);
  /// Throws Error, on all ranks alike, naming the first rank whose loss was not finite, in the
  /// first backward that has arrived and not been checked; where() ends the sentence (" in epoch
  /// 3").
  void check_flag(const std::function<std::string()>& where = {});
  void check_flag(const std::string& where) {
    check_flag([&] { return where; });
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
    Tensor flat;
    std::size_t pending = 0;
    Work work;
  };
  void make_buckets(const BucketOptions& options);
  void begin_backward();
  void gradient_ready(std::size_t parameter);
  void launch_full_buckets();
  void end_backward();
  void write_flags(const Tensor& flat);
  void read_flags(const Tensor& flat);
  void take_arrived_flags(bool wait = false);
  void raise_flag();
  std::string unused_parameters() const;

  nn::Module& model_;
  std::shared_ptr<Communicator> comm_;
  std::vector<nn::NamedTensor> parameters_;  // those that are trained, each once
  std::vector<Tensor> slots_;                // their gradients' places in the buckets
  std::vector<std::size_t> bucket_of_;
  std::vector<bool> is_ready_;
  std::vector<HookHandle> hooks_;
  std::vector<Bucket> buckets_;
  std::size_t next_launch_ = 0;
  std::weak_ptr<void> backward_;  // alive while the engine runs a backward that is synchronised
  bool sync_ = true;
  Tensor flag_;   // of this rank, one element; undefined: 0
  Tensor flags_;  // of all ranks, where the last all-reduce left them
  std::deque<AsyncCopy> arriving_;
  std::vector<double> losses_, bad_losses_, mean_losses_;
  StepTimeline timeline_;
};

}  // namespace rondo::dist
