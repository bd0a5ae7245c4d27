#include "dist/data_parallel/ddp.h"

#include <algorithm>
#include <cmath>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/device_collectives.h"
#include "dist/data_parallel/model_check.h"
#include "nn/shown.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "tensor/record_function.h"

namespace rondo::dist {
namespace {

/// The bucket size in memory that the ranks share. Small buckets would not pay there: the ranks'
/// own cores add the gradients, 4 MiB in some 0.2 ms, while each bucket costs a synchronization and
/// waking a thread.
constexpr std::int64_t least_in_memory = 4 << 20;

/// While it lives, this rank has joined.
class JoinedScope {
 public:
  explicit JoinedScope(bool& flag) : flag_(flag) { flag_ = true; }
  ~JoinedScope() { flag_ = false; }
  JoinedScope(const JoinedScope&) = delete;
  JoinedScope& operator=(const JoinedScope&) = delete;

 private:
  bool& flag_;
};

std::shared_ptr<Communicator> given(std::shared_ptr<Communicator> comm) {
  require(comm != nullptr, "DistributedDataParallel: the communicator is null");
  return comm;
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(nn::Module& model,
                                                 std::shared_ptr<Communicator> comm,
                                                 DdpOptions options)
    : model_(model),
      comm_(given(std::move(comm))),
      options_(options),
      known_(model, "DistributedDataParallel"),
      losses_(comm_->rank(), comm_->ranks_in_world()) {
  check_same_model(model_, *comm_);
  comm_->agree("DDP", concat("with unused ", options.unused == Unused::zeros ? "zeros" : "error",
                             options.static_graph ? ", static_graph" : "",
                             options.divide_by_active_ranks ? ", divide_by_active_ranks" : "",
                             ", bucket_bytes ", options.buckets.bucket_bytes,
                             ", first_bucket_bytes ", options.buckets.first_bucket_bytes));
  broadcast_model(model_, *comm_);
  for (auto& named :
       model_.named_parameters()) {  // a parameter shared by two layers is listed once
    if (named.tensor.requires_grad()) parameters_.push_back(named);
  }
  require(
      !parameters_.empty(),
      "DistributedDataParallel: no parameter of the model requires a gradient; there is nothing "
      "to average");
  for (const auto& p : parameters_)
    require<DeviceError>(p.tensor.device() == parameters_[0].tensor.device(),
                         "DistributedDataParallel: ", parameters_[0].name, " is on ",
                         parameters_[0].tensor.device(), ", ", p.name, " on ", p.tensor.device());
  BucketOptions buckets = options.buckets;
  if (comm_->shares_memory() && parameters_[0].tensor.device().is_cpu())
    buckets.least_bytes = std::max(buckets.least_bytes, least_in_memory);
  make_buckets(buckets);
}

DistributedDataParallel::~DistributedDataParallel() {
  for (HookHandle& hook : hooks_) hook.remove();
}

void DistributedDataParallel::make_buckets(const BucketOptions& options) {
  std::vector<GradientSize> sizes;
  for (const auto& p : parameters_) sizes.push_back({p.tensor.numel(), p.tensor.dtype()});
  slots_.resize(parameters_.size());
  bucket_of_.resize(parameters_.size());
  is_ready_.assign(parameters_.size(), false);
  used_.assign(parameters_.size(), false);
  auto plans = plan_buckets(sizes, options);
  for (std::size_t b = 0; b < plans.size(); ++b) {
    Bucket bucket;
    bucket.plan = std::move(plans[b]);
    const std::string& first = parameters_[bucket.plan.slices.front().parameter].name;
    const std::string& last = parameters_[bucket.plan.slices.back().parameter].name;
    bucket.label = concat("bucket ", b + 1, " of ", plans.size(), " (", first,
                          first == last ? "" : " … " + last, ")");
    // Zeros follow the gradients, up to whole cache lines for each rank. In the last bucket the
    // flags follow: three elements for each rank.
    const std::int64_t n = comm_->world_size(), line = cache_line / size_of(bucket.plan.dtype) * n;
    const std::int64_t padded = (bucket.plan.numel + line - 1) / line * line;
    bool is_last = b + 1 == plans.size();
    std::int64_t numel = padded + (is_last ? RankLosses::numel(comm_->world_size()) : 0);
    bucket.flat = comm_->empty(
        {numel}, {.dtype = bucket.plan.dtype, .device = parameters_[0].tensor.device()});
    bucket.gradients = bucket.flat.narrow(0, 0, bucket.plan.numel);
    bucket.padded = bucket.flat.narrow(0, 0, padded);
    bucket.padded.narrow(0, bucket.plan.numel, padded - bucket.plan.numel).zero_();
    for (const BucketSlice& slice : bucket.plan.slices) {
      const Tensor& p = parameters_[slice.parameter].tensor;
      // A slot has the parameter's strides. Its version counter is its own, so gradients in one
      // bucket do not invalidate each other.
      slots_[slice.parameter] =
          Tensor::over(bucket.flat.storage(), slice.offset, p.shape(), p.strides(), p.dtype());
      bucket_of_[slice.parameter] = b;
      p.zero_grad();
      set_grad_slot(p, slots_[slice.parameter]);
    }
    buckets_.push_back(std::move(bucket));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(register_post_accumulate_grad_hook(
        parameters_[i].tensor, [this, i](const Tensor&) { gradient_ready(i); }));
  }
}

// Called after a backward that threw. The all-reduces that it started still read and write the
// buckets, which the next backward will use.
void DistributedDataParallel::settle() {
  if (!is_under_way_ || !backward_.expired()) return;
  is_under_way_ = false;
  for (Bucket& bucket : buckets_) {
    for (const Work& work : std::exchange(bucket.works, {})) work.wait();
  }
  std::exchange(flags_work_, {}).wait();
}

void DistributedDataParallel::zero_grad() {
  model_.zero_grad();
  if (hook_ != nullptr) hook_->drop_step();
}

void DistributedDataParallel::abandon_step() {
  settle();
  micro_batches_ = 0;
  expects_backward_ = false;
  used_.assign(parameters_.size(), false);
  losses_.drop_kept();
  for (auto& p : parameters_) p.tensor.zero_grad();
  if (hook_ != nullptr) hook_->drop_step();
}

// Called at the first gradient of a backward. The engine keeps queued functions until the outermost
// backward ends, and drops them if it throws. Then `backward_` expires, and the next backward
// starts from the beginning.
void DistributedDataParallel::begin_backward() {
  settle();
  known_.check_same(comm_->rank_in_world());
  known_.check_trained(comm_->rank_in_world());
  auto token = std::make_shared<char>();
  backward_ = token;
  queue_callback([this, token] { end_backward(); });
  begin_step();
}

void DistributedDataParallel::begin_step() {
  is_ready_.assign(parameters_.size(), false);
  next_launch_ = 0;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.plan.slices.size();
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    if (!reached_[i]) leave_out(i);
  }
  timeline_ = {};
  timeline_.buckets.resize(buckets_.size());
  timeline_.first_gradient = Clock::now();
}

void DistributedDataParallel::gradient_ready(std::size_t parameter) {
  expects_backward_ = false;
  const auto& [name, tensor] = parameters_[parameter];
  used_[parameter] = true;
  const bool only_adds_up = !sync_ || micro_batches_ + 1 < accumulate_;
  const std::vector<bool>& expected = only_adds_up ? reached_by_any_ : reached_;
  require<CommError>(expected.empty() || expected[parameter], "rank ", comm_->rank_in_world(),
                     ": backward reached ", name,
                     ", which the first step of this static graph did not");
  if (sync_ && backward_.expired()) begin_backward();
  if (only_adds_up) return;
  require<CommError>(!is_ready_[parameter], "rank ", comm_->rank_in_world(), ": the gradient of ",
                     name,
                     " was completed twice in one backward; its bucket may already be in use");
  require<CommError>(tensor.grad().data_ptr() == slots_[parameter].data_ptr(), "rank ",
                     comm_->rank_in_world(), ": the gradient of ", name,
                     " is not in its bucket (set_grad, backward with create_graph, a "
                     "change of dtype or device, or a second wrapper around the same model)");
  if (is_recording())
    record_detail(concat("DDP: ", name, " in ", buckets_[bucket_of_[parameter]].label));
  is_ready_[parameter] = true;
  std::size_t b = bucket_of_[parameter];
  if (--buckets_[b].pending > 0) return;
  timeline_.buckets[b].ready = Clock::now();
  if (options_.overlap) launch_full_buckets(buckets_.size() - 1);
}

/// Launches full buckets with an index below `end`, up to the first that is not full.
void DistributedDataParallel::launch_full_buckets(std::size_t end) {
  for (; next_launch_ < end && buckets_[next_launch_].pending == 0; ++next_launch_)
    launch(next_launch_);
}

void DistributedDataParallel::launch(std::size_t index) {
  NoGradGuard no_grad;
  is_under_way_ = true;
  Bucket& bucket = buckets_[index];
  const Tensor& g = bucket.gradients;
  if (accumulate_ > 1 && !has_joined_) scale(g, 1.0 / accumulate_);
  const bool is_last = index + 1 == buckets_.size();
  if (is_last) losses_.write(flags_place(), accumulate_, has_joined_, missed_);
  const Communicator::Label label(*comm_, bucket.label);
  bucket.works.clear();
  if (hook_ != nullptr) {
    bucket.works = hook_->start(0, hook_buckets_[index], *comm_);
    if (is_last) flags_work_ = comm_->all_reduce_async(flags_place(), ReduceOp::avg);
  } else if (is_last && g.device().is_cpu()) {
    reduce_now(index);
  } else {
    bucket.works = {comm_->all_reduce_async(bucket.flat, ReduceOp::avg)};
  }
}

/// Reduces on this thread, which has nothing else to do.
void DistributedDataParallel::reduce_now(std::size_t index) {
  auto& times = timeline_.buckets[index];
  times.launched = Clock::now();
  for (std::size_t b = 0; b < index; ++b) {
    for (const Work& work : buckets_[b].works) work.wait();
  }
  times.started = Clock::now();
  comm_->all_reduce(buckets_[index].flat, ReduceOp::avg);
  times.finished = Clock::now();
}

void DistributedDataParallel::end_backward() {
  backward_.reset();
  timeline_.backward_end = Clock::now();
  if (++micro_batches_ < accumulate_) return losses_.keep();
  micro_batches_ = 0;
  if (!reached_.empty()) {
    check_static_graph();
  } else if (options_.unused == Unused::zeros) {
    fill_in_unused();
  }
  used_.assign(parameters_.size(), false);
  launch_full_buckets(buckets_.size());
  losses_.drop_kept();
  require<CommError>(
      next_launch_ == buckets_.size(), "rank ", comm_->rank_in_world(), ": backward did not reach ",
      text_of_unused(),
      "; every parameter must take part in the loss, be frozen "
      "(requires_grad_(false)) before DistributedDataParallel is made, or be allowed "
      "to be unused (Unused::zeros)");
  finish_buckets();
  // Checked last, so that this rank has taken part in what the other ranks wait for.
  nn::detail::require_all_shown("DistributedDataParallel");
}

/// Waits for all launched buckets.
void DistributedDataParallel::finish_buckets() {
  NoGradGuard no_grad;
  if (hook_ != nullptr) finish_hook();
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    auto& times = timeline_.buckets[b];
    times.bytes = buckets_[b].flat.nbytes();
    if (buckets_[b].works.empty()) continue;
    for (const Work& work : buckets_[b].works) work.wait();
    const Work &first = buckets_[b].works.front(), &last = buckets_[b].works.back();
    times.launched = first.issued();
    times.started = first.started();
    times.finished = last.finished();
  }
  is_under_way_ = false;
  if (options_.divide_by_active_ranks) divide_by_active();
  if (options_.unused == Unused::zeros) agree_on_unused();
  for (const Tensor& slot : slots_) slot.bump_version();
  losses_.averaged(flags_place());
  losses_.check_in_step();
  timeline_.synchronized = Clock::now();
}

// The second rounds of all buckets come after all first rounds, most of which are complete by now.
void DistributedDataParallel::finish_hook() {
  for (int round = 1; round <= hook_->rounds(); ++round) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      Bucket& bucket = buckets_[b];
      for (const Work& work : bucket.works) work.wait();
      const GradBucket& gradients = hook_buckets_[b];
      const Communicator::Label label(*comm_, bucket.label);
      if (round == hook_->rounds()) {
        hook_->finish(gradients, *comm_);
      } else {
        bucket.works = hook_->start(round, gradients, *comm_);
      }
    }
  }
  flags_work_.wait();
}

void DistributedDataParallel::divide_by_active() {
  const std::int64_t n = comm_->world_size();
  // Averages of zeros and one 1 each: their sum would be inexact in bf16.
  const auto active = (flags_place().narrow(0, n, n) != 0).sum().item<std::int64_t>();
  if (active == n || active == 0) return;
  for (const Bucket& bucket : buckets_)
    scale(bucket.gradients, static_cast<double>(n) / static_cast<double>(active));
}

void DistributedDataParallel::accumulate(int k) {
  comm_->agree("accumulate", std::to_string(k));
  set_micro_batches(k);
}

void DistributedDataParallel::set_micro_batches(int k) {
  require(k >= 1, "accumulate: k is ", k, ", but must be at least 1");
  require(micro_batches_ == 0, "accumulate: ", micro_batches_, " of ", accumulate_,
          " micro-batches of this step are done; call it between two steps");
  accumulate_ = k;
}

std::int64_t DistributedDataParallel::join(const std::function<void()>& step) {
  require(micro_batches_ == 0, "join: ", micro_batches_, " of ", accumulate_,
          " micro-batches of this step are done; call it between two steps");
  const JoinedScope joined(has_joined_);
  losses_.set({});
  std::int64_t steps = 0;
  while (true) {
    // The round in which no rank has a batch must not change a hook's state.
    const nn::StateDict memory = hook_ ? hook_->state() : nn::StateDict();
    Tensors before;
    for (const auto& entry : memory) before.push_back(entry.tensor.clone());
    take_part_with_zeros();
    losses_.take(/*wait=*/true);
    if (losses_.is_nobody_active()) {
      NoGradGuard no_grad;
      for (std::size_t i = 0; i < memory.size(); ++i) memory[i].tensor.copy_(before[i]);
      break;
    }
    check_loss("");
    ++steps;
    step();
  }
  losses_.forget_last_mean();  // of the round in which no rank had a batch
  for (auto& p : parameters_) p.tensor.zero_grad();
  return steps;
}

void DistributedDataParallel::take_part_with_zeros() {
  NoGradGuard no_grad;
  begin_step();
  for (Bucket& bucket : buckets_) {
    bucket.gradients.zero_();
    bucket.pending = 0;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    // If unused parameters are allowed, the other ranks tell which are used.
    if (options_.unused == Unused::zeros) {
      parameters_[i].tensor.zero_grad();
    } else {
      parameters_[i].tensor.set_grad(slots_[i]);
    }
  }
  timeline_.backward_end = Clock::now();
  launch_full_buckets(buckets_.size());
  finish_buckets();
}

void DistributedDataParallel::register_comm_hook(std::shared_ptr<CommHook> hook) {
  require<CommError>(hook != nullptr, "register_comm_hook: the hook is null");
  require<CommError>(hook_ == nullptr, "register_comm_hook: there is a comm hook already: ",
                     hook_ ? hook_->name() : "");
  comm_->agree("comm hook", hook->name());
  std::vector<GradBucket> buckets;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    GradBucket bucket{
        .index = b, .flat = buckets_[b].gradients, .slices = {}, .padded = buckets_[b].padded};
    for (const BucketSlice& slice : buckets_[b].plan.slices) {
      const nn::NamedTensor& p = parameters_[slice.parameter];
      bucket.slices.push_back({.offset = slice.offset, .shape = p.tensor.shape(), .parameter = p});
    }
    buckets.push_back(std::move(bucket));
  }
  hook->prepare(buckets, *comm_);
  hook_buckets_ = std::move(buckets);
  hook_ = std::move(hook);
}

Tensor DistributedDataParallel::flags_place() const {
  const Tensor& last = buckets_.back().flat;
  const std::int64_t n = RankLosses::numel(comm_->world_size());
  return last.narrow(0, last.numel() - n, n);
}

void DistributedDataParallel::set_loss(double loss) {
  const Device device = parameters_.empty() ? Device::cpu() : parameters_[0].tensor.device();
  losses_.set(full({1}, loss, {.dtype = f32, .device = device}));
}

void DistributedDataParallel::replayed() {
  if (DeviceCollectives* gpu = comm_->gpu()) gpu->watch("a replayed step");
  losses_.replayed();
}

void DistributedDataParallel::broadcast_buffers() {
  for (auto& named : model_.named_buffers()) comm_->broadcast(named.tensor);
}

bool DistributedDataParallel::first_bucket_started() const {
  return next_launch_ > 0 && !buckets_[0].works.empty() &&
         buckets_[0].works[0].started() != Clock::time_point{};
}

std::vector<std::int64_t> DistributedDataParallel::bucket_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const Bucket& b : buckets_) bytes.push_back(b.plan.numel * size_of(b.plan.dtype));
  return bytes;
}

}  // namespace rondo::dist
