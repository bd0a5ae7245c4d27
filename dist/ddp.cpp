#include "dist/ddp.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "autograd/engine.h"
#include "dist/model_check.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

double read_element(const Tensor& flat, std::int64_t i) {
  return visit_dtype(flat.dtype(),
                     [&]<class T>() { return static_cast<double>(flat.data_ptr<T>()[i]); });
}

void write_element(const Tensor& flat, std::int64_t i, double value) {
  // f16 ends at 65504; a large loss is not yet an infinite one.
  if (flat.dtype() == f16 && std::isfinite(value)) value = std::clamp(value, -60000.0, 60000.0);
  visit_dtype(flat.dtype(), [&]<class T>() {
    if constexpr (std::is_same_v<T, BFloat16> || std::is_same_v<T, Half>) {
      flat.data_ptr<T>()[i] = T(static_cast<float>(value));
    } else {
      flat.data_ptr<T>()[i] = static_cast<T>(value);
    }
  });
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
    auto storage = comm_->allocate(static_cast<std::size_t>(numel * size_of(bucket.plan.dtype)));
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
  std::int64_t end = flat.numel(), n = comm_->world_size();
  for (int r = 0; r < n; ++r) write_element(flat, end - n + r, r == comm_->rank() ? flag_ : 0.0);
}

void DistributedDataParallel::read_flags(const Tensor& flat) {
  std::int64_t end = flat.numel(), n = comm_->world_size();
  for (int r = 0; r < n; ++r) {
    losses_[r] = read_element(flat, end - n + r) * static_cast<double>(n);
  }
}

double DistributedDataParallel::mean_loss() const {
  double sum = 0;
  for (double loss : losses_) sum += loss;
  return sum / static_cast<double>(losses_.size());
}

void DistributedDataParallel::check_flag(const std::function<std::string()>& where) const {
  for (std::size_t r = 0; r < losses_.size(); ++r) {
    if (!std::isfinite(losses_[r]))
      throw Error(concat("the loss is ", losses_[r], " on rank ", r, where ? where() : ""));
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
