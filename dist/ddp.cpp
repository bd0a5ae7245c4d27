#include "dist/ddp.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"
#include "dist/device_collectives.h"
#include "dist/model_check.h"
#include "tensor/creation.h"
#include "tensor/cuda_graph.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::size_t most_untaken = 10000;  // means that nobody asks for

/// A loss as an element of a bucket. f16 ends at 65504; a large loss is not yet an infinite one.
Tensor as_flag(const Tensor& loss, DType dtype) {
  if (dtype != f16) return loss.to(dtype);
  return where(isfinite(loss), clamp(loss, -60000.0, 60000.0), loss).to(dtype);
}

}  // namespace

DistributedDataParallel::DistributedDataParallel(nn::Module& model,
                                                 std::shared_ptr<Communicator> comm,
                                                 DdpOptions options)
    : model_(model), comm_(std::move(comm)) {
  require(comm_ != nullptr, "DistributedDataParallel: there is no communicator");
  losses_.assign(static_cast<std::size_t>(comm_->world_size()), 0.0);
  check_same_model(model_, *comm_);
  broadcast_model(model_, *comm_);
  std::set<const TensorImpl*> seen;  // two layers may share one
  for (auto& named : model_.named_parameters()) {
    bool is_new = seen.insert(named.tensor.impl_ptr().get()).second;
    if (is_new && named.tensor.requires_grad()) parameters_.push_back(named);
  }
  for (const auto& p : parameters_)
    require<DeviceError>(p.tensor.device() == parameters_[0].tensor.device(),
                         "DistributedDataParallel: ", parameters_[0].name, " is on ",
                         parameters_[0].tensor.device(), ", ", p.name, " on ", p.tensor.device());
  make_buckets(options.buckets);
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
  auto plans = plan_buckets(sizes, options);
  for (std::size_t b = 0; b < plans.size(); ++b) {
    Bucket bucket;
    bucket.plan = std::move(plans[b]);
    // The flags: one element for each rank's loss, at the end of the last bucket.
    bool is_last = b + 1 == plans.size();
    std::int64_t numel = bucket.plan.numel + (is_last ? comm_->world_size() : 0);
    auto storage = comm_->allocate(static_cast<std::size_t>(numel * size_of(bucket.plan.dtype)),
                                   parameters_[0].tensor.device());
    bucket.flat = Tensor::over(storage, 0, {numel}, {1}, bucket.plan.dtype);
    for (const BucketSlice& slice : bucket.plan.slices) {
      const Tensor& p = parameters_[slice.parameter].tensor;
      // With the parameter's strides, and a version counter of its own: neighbours in a bucket
      // do not invalidate each other.
      slots_[slice.parameter] =
          Tensor::over(storage, slice.offset, p.shape(), p.strides(), p.dtype());
      bucket_of_[slice.parameter] = b;
      p.zero_grad();
      set_grad_slot(p, slots_[slice.parameter]);
    }
    buckets_.push_back(std::move(bucket));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    hooks_.push_back(register_accumulate_hook(parameters_[i].tensor,
                                              [this, i](const Tensor&) { gradient_ready(i); }));
  }
}

// The first gradient of a backward. The engine keeps what is queued until the outermost backward
// ends, and drops it when that throws: then `backward_` expires, and the next one starts afresh.
void DistributedDataParallel::begin_backward() {
  auto token = std::make_shared<char>();
  backward_ = token;
  queue_callback([this, token] { end_backward(); });
  is_ready_.assign(parameters_.size(), false);
  next_launch_ = 0;
  for (Bucket& bucket : buckets_) bucket.pending = bucket.plan.slices.size();
  timeline_ = {};
  timeline_.buckets.resize(buckets_.size());
  timeline_.first_gradient = Clock::now();
}

void DistributedDataParallel::gradient_ready(std::size_t parameter) {
  if (!sync_) return;
  if (backward_.expired()) begin_backward();
  const auto& [name, tensor] = parameters_[parameter];
  require<CommError>(!is_ready_[parameter], "rank ", comm_->rank(), ": the gradient of ", name,
                     " was completed twice in one backward, after its bucket may have left");
  require<CommError>(tensor.grad().data_ptr() == slots_[parameter].data_ptr(), "rank ",
                     comm_->rank(), ": the gradient of ", name,
                     " does not live in its bucket (set_grad, backward with create_graph, a "
                     "change of dtype or device, or a second wrapper around the same model)");
  is_ready_[parameter] = true;
  std::size_t b = bucket_of_[parameter];
  if (--buckets_[b].pending > 0) return;
  timeline_.buckets[b].ready = Clock::now();
  launch_full_buckets();
}

void DistributedDataParallel::launch_full_buckets() {
  for (; next_launch_ < buckets_.size() && buckets_[next_launch_].pending == 0; ++next_launch_) {
    Bucket& bucket = buckets_[next_launch_];
    if (next_launch_ + 1 == buckets_.size()) write_flags(bucket.flat);
    bucket.work = comm_->all_reduce_async(bucket.flat, ReduceOp::avg);
  }
}

void DistributedDataParallel::end_backward() {
  backward_.reset();
  timeline_.backward_end = Clock::now();
  require<CommError>(next_launch_ == buckets_.size(), "rank ", comm_->rank(),
                     ": backward did not reach ", unused_parameters(),
                     "; every parameter must take part in the loss (or requires_grad_(false))");
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    const Work& work = buckets_[b].work;
    work.wait();
    auto& times = timeline_.buckets[b];
    times.bytes = buckets_[b].flat.nbytes();
    times.launched = work.issued();
    times.started = work.started();
    times.finished = work.finished();
  }
  for (const Tensor& slot : slots_) slot.bump_version();
  read_flags(buckets_.back().flat);
  timeline_.synchronized = Clock::now();
}

std::string DistributedDataParallel::unused_parameters() const {
  std::string names;
  std::size_t unused = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    if (is_ready_[i] || ++unused > 5) continue;
    names += (names.empty() ? "" : ", ") + parameters_[i].name;
  }
  return unused > 5 ? concat(names, " and ", unused - 5, " more") : names;
}

// Each rank writes into its own place and 0 into the others', so that the average of each place is
// that rank's loss / N.
void DistributedDataParallel::write_flags(const Tensor& flat) {
  NoGradGuard no_grad;
  const std::int64_t n = comm_->world_size();
  const Tensor flags = flat.narrow(0, flat.numel() - n, n);
  flags.zero_();
  if (flag_.defined()) flags.narrow(0, comm_->rank(), 1).copy_(as_flag(flag_, flat.dtype()));
}

// On a GPU the numbers arrive some steps later, and nobody waits for them unless many are on the
// way.
void DistributedDataParallel::read_flags(const Tensor& flat) {
  const std::int64_t n = comm_->world_size();
  flags_ = flat.narrow(0, flat.numel() - n, n);
  if (cuda::is_capturing()) return;
  arriving_.emplace_back(flags_);
  take_arrived_flags();
}

void DistributedDataParallel::take_arrived_flags(bool wait) {
  constexpr std::size_t most_on_the_way = 16;
  while (!arriving_.empty() &&
         (wait || arriving_.front().is_ready() || arriving_.size() > most_on_the_way)) {
    const auto values = arriving_.front().get().to_vector<double>();
    for (std::size_t r = 0; r < losses_.size(); ++r)
      losses_[r] = values[r] * static_cast<double>(losses_.size());
    arriving_.pop_front();
    mean_losses_.push_back(mean_loss());
    raise_flag();
  }
}

std::vector<double> DistributedDataParallel::take_mean_losses(bool wait) {
  take_arrived_flags(wait);
  return std::exchange(mean_losses_, {});
}

void DistributedDataParallel::replayed() {
  if (DeviceCollectives* gpu = comm_->gpu()) gpu->watch("a replayed step");
  arriving_.emplace_back(flags_);
  take_arrived_flags();
}

void DistributedDataParallel::raise_flag() {
  if (!bad_losses_.empty()) return;  // the first that came counts
  for (double loss : losses_) {
    if (!std::isfinite(loss)) bad_losses_ = losses_;
  }
}

void DistributedDataParallel::set_flag(double loss) {
  const Device device = parameters_.empty() ? Device::cpu() : parameters_[0].tensor.device();
  flag_ = full({1}, loss, {.dtype = f32, .device = device});
}

double DistributedDataParallel::mean_loss() const {
  double sum = 0;
  for (double loss : losses_) sum += loss;
  return sum / static_cast<double>(losses_.size());
}

void DistributedDataParallel::check_flag(const std::function<std::string()>& where) {
  take_arrived_flags();
  if (mean_losses_.size() > most_untaken)
    mean_losses_.erase(mean_losses_.begin(), mean_losses_.begin() + most_untaken / 2);
  const std::vector<double> losses = std::exchange(bad_losses_, {});
  for (std::size_t r = 0; r < losses.size(); ++r) {
    if (!std::isfinite(losses[r]))
      throw Error(concat("the loss is ", losses[r], " on rank ", r, where ? where() : ""));
  }
}

void DistributedDataParallel::broadcast_buffers() {
  for (auto& named : model_.named_buffers()) comm_->broadcast(named.tensor);
}

bool DistributedDataParallel::first_bucket_started() const {
  return next_launch_ > 0 && buckets_[0].work.started() != Clock::time_point{};
}

std::vector<std::int64_t> DistributedDataParallel::bucket_bytes() const {
  std::vector<std::int64_t> bytes;
  for (const Bucket& b : buckets_) bytes.push_back(b.plan.numel * size_of(b.plan.dtype));
  return bytes;
}

}  // namespace rondo::dist
