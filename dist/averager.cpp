#include "dist/averager.h"

#include <cstring>
#include <map>

#include "dist/model_check.h"
#include "tensor/error.h"

namespace rondo::dist {

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
    auto storage = comm_->allocate(static_cast<std::size_t>(numel * size_of(dtype)));
    Tensor flat = Tensor::over(storage, 0, {numel}, {1}, dtype);
    char* at = static_cast<char*>(flat.data_ptr());
    for (const Tensor& t : tensors) {
      std::memcpy(at, t.data_ptr(), static_cast<std::size_t>(t.nbytes()));
      at += t.nbytes();
    }
    comm_->all_reduce(flat, ReduceOp::avg);
    at = static_cast<char*>(flat.data_ptr());
    for (const Tensor& t : tensors) {
      std::memcpy(t.data_ptr(), at, static_cast<std::size_t>(t.nbytes()));
      t.bump_version();
      at += t.nbytes();
    }
  }
}

}  // namespace rondo::dist
