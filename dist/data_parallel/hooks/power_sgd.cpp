#include "dist/data_parallel/hooks/power_sgd.h"

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

Tensor allocated(Communicator& comm, std::int64_t numel, const Tensor& like) {
  auto memory =
      comm.allocate(static_cast<std::size_t>(numel * size_of(like.dtype())), like.device());
  const Tensor all = Tensor::over(memory, 0, {numel}, {1}, like.dtype());
  all.zero_();
  return all;
}

/// Cuts a contiguous buffer into matrices.
class Cutter {
 public:
  explicit Cutter(Tensor all) : all_(std::move(all)) {}
  Tensor next(std::int64_t rows, std::int64_t columns) {
    const Tensor part = all_.narrow(0, at_, rows * columns).reshape({rows, columns});
    at_ += rows * columns;
    return part;
  }

 private:
  Tensor all_;
  std::int64_t at_ = 0;
};

}  // namespace

void orthogonalize(const Tensor& x) {
  // If a column depends linearly on those before it, the remainder is a rounding error, not a
  // direction.
  const double rounding = x.dtype() == f64 ? 1e-12 : 1e-5;
  const Tensor least = sqrt(sum(x * x, {0}, true)) * rounding;
  const std::int64_t r = x.size(1);
  for (std::int64_t i = 0; i < r; ++i) {
    const Tensor column = x.narrow(1, i, 1), length = sqrt(sum(column * column)).reshape({1, 1});
    const Tensor is_direction = gt(length, least.narrow(1, i, 1));
    column.copy_(where(is_direction, column / length, zeros_like(column)));
    if (i + 1 == r) break;
    const Tensor rest = x.narrow(1, i + 1, r - i - 1);
    rest.copy_(rest - column * sum(column * rest, {0}, true));
  }
}

PowerSgdHook::PowerSgdHook(PowerSgdOptions options) : options_(options) {
  require<CommError>(options.rank >= 1, "powersgd: rank ", options.rank, "; it must be at least 1");
}

void PowerSgdHook::prepare(const std::vector<GradBucket>& buckets, Communicator& comm) {
  buckets_.clear();
  for (const GradBucket& bucket : buckets) {
    buckets_.push_back(make_bucket(bucket, comm));
    const Bucket& made = buckets_.back();
    remember("error", bucket, made.errors);
    remember("q", bucket, made.qs);
    remember("step", bucket, made.step);
  }
}

PowerSgdHook::Bucket PowerSgdHook::make_bucket(const GradBucket& bucket, Communicator& comm) const {
  const Tensor& flat = bucket.flat;
  const std::int64_t r = options_.rank;
  Bucket made;
  made.step = zeros({1}, {.dtype = i64});
  std::vector<Tensor> gradients;
  std::int64_t of_p = 0, of_q = 0, of_error = 0, of_plain = 0;
  for (const GradBucket::Slice& slice : bucket.slices) {
    const std::int64_t numel = numel_of(slice.shape);
    const Tensor part = flat.narrow(0, slice.offset, numel);
    const std::int64_t m = slice.shape.size() >= 2 ? slice.shape[0] : 1, n = numel / m;
    if (m > 1 && 2 * r * (m + n) <= m * n) {
      gradients.push_back(part.reshape({m, n}));
      of_p += m * r;
      of_q += n * r;
      of_error += m * n;
    } else {
      made.plain.push_back(part);
      of_plain += numel;
    }
  }
  made.ps = allocated(comm, of_p, flat);
  made.qs = allocated(comm, of_q, flat);
  made.plain_flat = allocated(comm, of_plain, flat);
  made.errors = zeros({of_error}, {.dtype = flat.dtype(), .device = flat.device()});
  Generator generator(options_.seed + bucket.index);  // equal on all ranks
  if (of_q > 0) made.qs.copy_(randn({of_q}, {.dtype = flat.dtype()}, generator).to(flat.device()));
  made.first_qs = made.qs.clone();
  Cutter errors(made.errors), ps(made.ps), qs(made.qs);
  for (const Tensor& g : gradients) {
    const std::int64_t m = g.size(0), n = g.size(1);
    made.matrices.push_back(
        {.gradient = g, .error = errors.next(m, n), .p = ps.next(m, r), .q = qs.next(n, r)});
  }
  return made;
}

bool PowerSgdHook::is_plain(const Bucket& bucket) const {
  return bucket.step.item<std::int64_t>() < options_.start_step;
}

std::vector<Work> PowerSgdHook::start(int round, const GradBucket& bucket, Communicator& comm) {
  Bucket& b = buckets_[bucket.index];
  if (is_plain(b)) {
    if (round > 0) return {};
    return {all_reduce(comm, bucket.flat, ReduceOp::avg)};
  }
  if (round == 1) {
    for (const Matrix& m : b.matrices) {
      orthogonalize(m.p);
      m.q.copy_(matmul(transpose(m.gradient, 0, 1), m.p));
    }
    return {all_reduce(comm, b.qs, ReduceOp::avg)};
  }
  for (const Matrix& m : b.matrices) {
    m.gradient.add_(m.error);
    m.p.copy_(matmul(m.gradient, m.q));
  }
  std::int64_t at = 0;
  for (const Tensor& part : b.plain) {
    b.plain_flat.narrow(0, at, part.numel()).copy_(part);
    at += part.numel();
  }
  return {all_reduce(comm, b.ps, ReduceOp::avg), all_reduce(comm, b.plain_flat, ReduceOp::avg)};
}

void PowerSgdHook::finish(const GradBucket& bucket, Communicator&) {
  Bucket& b = buckets_[bucket.index];
  const bool was_plain = is_plain(b);
  b.step.add_(ones({1}, {.dtype = i64}));
  if (was_plain) return;
  for (const Matrix& m : b.matrices) {
    const Tensor product = matmul(m.p, transpose(m.q, 0, 1));
    const Tensor error = m.gradient - product;
    m.error.copy_(masked_fill(error, logical_not(isfinite(error)), 0.0));
    m.gradient.copy_(product);
  }
  // A NaN of this step is in all ranks' gradients. It is not kept for the next steps.
  if (b.qs.numel() > 0) b.qs.copy_(where(isfinite(b.qs), b.qs, b.first_qs));
  std::int64_t at = 0;
  for (const Tensor& part : b.plain) {
    part.copy_(b.plain_flat.narrow(0, at, part.numel()));
    at += part.numel();
  }
}

}  // namespace rondo::dist
