#include "data/replay_buffer.h"

#include <algorithm>
#include <mutex>

#include "tensor/backend.h"
#include "tensor/error.h"

namespace rondo::data {
namespace {

Tensor rows_for(const Tensor& sample, std::int64_t capacity) {
  Dims sizes{capacity};
  for (const std::int64_t size : sample.shape()) sizes.push_back(size);
  return Tensor::empty(sizes, {.dtype = sample.dtype()});
}

/// rows[place], without the leading dimension.
Tensor row(const Tensor& rows, std::int64_t place) {
  const Dims &sizes = rows.shape(), &strides = rows.strides();
  return rows.as_view({sizes.begin() + 1, sizes.end()}, {strides.begin() + 1, strides.end()},
                      place * strides[0]);
}

void check(const Tensor& sample, const char* role) {
  require<DeviceError>(sample.device().is_cpu(), "ReplayBuffer::push: ", role, " is on ",
                       sample.device(), ", but data sets are on the CPU; call .to(Device::cpu())");
}

void check_like(const Tensor& sample, const Tensor& rows, const char* role) {
  const Tensor first = row(rows, 0);
  require<ShapeError>(sample.shape() == first.shape(), "ReplayBuffer::push: ", role, " has shape ",
                      sample.shape(), ", but the first sample's has ", first.shape());
  require<DTypeError>(sample.dtype() == first.dtype(), "ReplayBuffer::push: ", role, " is ",
                      sample.dtype(), ", but the first sample's is ", first.dtype());
}

}  // namespace

ReplayBuffer::ReplayBuffer(std::int64_t capacity) : capacity_(capacity) {
  require(capacity >= 1, "ReplayBuffer: capacity ", capacity, " is below 1");
}

void ReplayBuffer::push(const Tensor& input, const Tensor& target) {
  check(input, "input");
  check(target, "target");
  const std::lock_guard lock(mutex_);
  if (!rows_) rows_.emplace(rows_for(input, capacity_), rows_for(target, capacity_));
  check_like(input, rows_->inputs(), "input");
  check_like(target, rows_->targets(), "target");
  const std::int64_t place = pushed_ % capacity_;
  backend(input).copy(input, row(rows_->inputs(), place));
  backend(target).copy(target, row(rows_->targets(), place));
  ++pushed_;
}

std::int64_t ReplayBuffer::size() const { return std::min(pushed(), capacity_); }

std::int64_t ReplayBuffer::pushed() const {
  const std::lock_guard lock(mutex_);
  return pushed_;
}

Batch ReplayBuffer::get_batch(std::span<const std::int64_t> indices) const {
  const std::lock_guard lock(mutex_);
  const std::int64_t count = std::min(pushed_, capacity_);
  for (const std::int64_t index : indices)
    require<ShapeError>(index >= 0 && index < count, "sample ", index,
                        " was asked for, but the buffer has ", count, " samples");
  require<ShapeError>(rows_.has_value(), "the buffer has no samples yet; push some first");
  return rows_->get_batch(indices);
}

}  // namespace rondo::data
