#include "dist/averager.h"

#include <map>
#include <utility>

#include "dist/model_check.h"
#include "tensor/backend.h"
#include "tensor/error.h"

namespace rondo::dist {

namespace {

/// A dense tensor's elements as they lie in memory.
Tensor in_memory_order(const Tensor& x) { return x.as_view({x.numel()}, {1}, x.storage_offset()); }

}  // namespace

ParameterAverager::ParameterAverager(nn::Module& model, std::shared_ptr<Communicator> comm,
                                     AveragerOptions options)
    : model_(model), comm_(std::move(comm)), every_(options.every) {
  require<CommError>(every_ >= 1, "ParameterAverager: every ", every_,
                     " steps; it must be at least 1");
  check_same_model(model_, *comm_);
  broadcast_model(model_, *comm_);
}

void ParameterAverager::step() {
  if (++since_ >= every_) average();
}

void ParameterAverager::finish() {
  if (since_ > 0) average();
}

// Everything of one dtype in one message. Integer buffers (a count of batches) advance alike on all
// ranks and have no average.
void ParameterAverager::average() {
  since_ = 0;
  if (comm_->world_size() == 1) return;
  std::map<DType, std::vector<Tensor>> by_dtype;
  for (auto& named : model_.named_parameters())
    by_dtype[named.tensor.dtype()].push_back(named.tensor);
  for (auto& named : model_.named_buffers()) by_dtype[named.tensor.dtype()].push_back(named.tensor);
  for (auto& [dtype, tensors] : by_dtype) {
    if (!is_floating(dtype)) continue;
    std::int64_t numel = 0;
    for (const Tensor& t : tensors) numel += t.numel();
    const Device device = tensors[0].device();
    auto storage = comm_->allocate(static_cast<std::size_t>(numel * size_of(dtype)), device);
    Tensor flat = Tensor::over(storage, 0, {numel}, {1}, dtype);
    std::int64_t at = 0;
    auto next_part = [&](const Tensor& t) {
      return flat.narrow(0, std::exchange(at, at + t.numel()), t.numel());
    };
    for (const Tensor& t : tensors) backend(device).copy(in_memory_order(t), next_part(t));
    comm_->all_reduce(flat, ReduceOp::avg);
    at = 0;
    for (const Tensor& t : tensors) {
      backend(device).copy(next_part(t), in_memory_order(t));
      t.bump_version();
    }
  }
}

}  // namespace rondo::dist
