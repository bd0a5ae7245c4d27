// One optimizer step over one parameter: a single pass over flat memory, in blocks that stay in the
// first-level cache.
//
// f32 and f64 are updated where they lie. Other parameters (bf16, f16), or a mixture (a bf16 weight
// with f32 moments), are widened to f32 a block at a time, updated with the same code and rounded
// once on the way back. Formulas: torch.optim.SGD, Adam and AdamW; see tensor/backend.h.

#include <algorithm>
#include <cmath>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t block = 1024;

/// One tensor's part in the pass: a block of it as C, in place where its dtype is C.
template <class C>
class Column {
 public:
  explicit Column(const Tensor& x) : defined_(x.defined()) {
    if (!defined_) return;
    data_ = x.data_ptr();
    dtype_ = x.dtype();
  }
  /// Elements begin … begin+n-1, in `buffer` unless they can be used where they lie; null when
  /// there is no tensor.
  C* open(std::int64_t begin, std::int64_t n, C* buffer) const {
    if (!defined_) return nullptr;
    if (dtype_ == dtype_of<C>) return static_cast<C*>(data_) + begin;
    load(dtype_, data_, begin, 1, n, buffer);
    return buffer;
  }
  void close(std::int64_t begin, std::int64_t n, const C* values) const {
    if (defined_ && dtype_ != dtype_of<C>) store(dtype_, data_, begin, 1, n, values);
  }

 private:
  void* data_ = nullptr;
  DType dtype_ = DType::f32;
  bool defined_;
};

/// Calls update(n, pointers) for every block, in parallel; all but column 1, the gradient, are
/// written back.
template <class C, std::size_t K, class Update>
void for_each_block(std::int64_t count, const std::array<Tensor, K>& tensors,
                    const Update& update) {
  std::vector<Column<C>> columns(tensors.begin(), tensors.end());
  const std::int64_t blocks = (count + block - 1) / block;
#pragma omp parallel for schedule(static) if (count >= parallel_grain)
  for (std::int64_t b = 0; b < blocks; ++b) {
    std::array<std::array<C, block>, K> buffers;
    std::array<C*, K> at;
    const std::int64_t begin = b * block, n = std::min(block, count - begin);
    for (std::size_t k = 0; k < K; ++k) at[k] = columns[k].open(begin, n, buffers[k].data());
    update(n, at);
    for (std::size_t k = 0; k < K; ++k) {
      if (k != 1) columns[k].close(begin, n, at[k]);
    }
  }
}

template <class C>
struct SgdUpdate {
  C lr, momentum, weight_decay, undampened, sign;
  bool nesterov, first_step;

  void operator()(std::int64_t n, const std::array<C*, 3>& at) const {
    C* __restrict p = at[0];
    const C* __restrict g = at[1];
    C* __restrict buffer = at[2];
    if (!buffer) {
      for (std::int64_t i = 0; i < n; ++i) p[i] -= lr * (sign * g[i] + weight_decay * p[i]);
      return;
    }
    // The first step starts the buffer with the undampened gradient, as PyTorch does.
    const C keep = first_step ? C(0) : momentum, take = first_step ? C(1) : undampened;
    if (first_step) std::fill_n(buffer, n, C(0));
    if (nesterov) {
      for (std::int64_t i = 0; i < n; ++i) {
        const C d = sign * g[i] + weight_decay * p[i];
        buffer[i] = keep * buffer[i] + take * d;
        p[i] -= lr * (d + momentum * buffer[i]);
      }
    } else {
      for (std::int64_t i = 0; i < n; ++i) {
        const C d = sign * g[i] + weight_decay * p[i];
        buffer[i] = keep * buffer[i] + take * d;
        p[i] -= lr * buffer[i];
      }
    }
  }
};

template <class C>
struct AdamUpdate {
  C step_size;   // lr / (1 - beta1^step)
  C root_scale;  // 1 / sqrt(1 - beta2^step)
  C beta1, beta2, rest1, rest2, eps, sign;
  C decay_gradient;  // Adam: g += decay p
  C keep_weight;     // AdamW: p *= 1 - lr decay

  void operator()(std::int64_t n, const std::array<C*, 5>& at) const {
    C* __restrict p = at[0];
    const C* __restrict g = at[1];
    C* __restrict m = at[2];
    C* __restrict v = at[3];
    C* __restrict max_v = at[4];
    for (std::int64_t i = 0; i < n; ++i) {
      const C d = sign * g[i] + decay_gradient * p[i];
      m[i] = beta1 * m[i] + rest1 * d;
      v[i] = beta2 * v[i] + rest2 * d * d;
    }
    const C* second = v;
    if (max_v) {
      for (std::int64_t i = 0; i < n; ++i) max_v[i] = v[i] > max_v[i] ? v[i] : max_v[i];
      second = max_v;
    }
    for (std::int64_t i = 0; i < n; ++i) {
      p[i] = keep_weight * p[i] - step_size * m[i] / (std::sqrt(second[i]) * root_scale + eps);
    }
  }
};

}  // namespace

void CpuBackend::sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer, const Tensor& lr,
                          const SgdParams& params) {
  visit_float_compute(p.dtype(), "sgd_step", [&]<class C>() {
    const SgdUpdate<C> update{.lr = static_cast<C>(*lr.data_ptr<double>()),
                              .momentum = static_cast<C>(params.momentum),
                              .weight_decay = static_cast<C>(params.weight_decay),
                              .undampened = static_cast<C>(1 - params.dampening),
                              .sign = params.maximize ? C(-1) : C(1),
                              .nesterov = params.nesterov,
                              .first_step = params.first_step};
    for_each_block<C, 3>(p.numel(), {p, g, buffer}, update);
  });
}

void CpuBackend::adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                           const Tensor& max_v, const Tensor& lr, const Tensor& step,
                           const AdamParams& params) {
  const double rate = *lr.data_ptr<double>(), t = *step.data_ptr<double>();
  const double correction1 = 1 - std::pow(params.beta1, t);
  const double correction2 = 1 - std::pow(params.beta2, t);
  const double decay = params.weight_decay;
  visit_float_compute(p.dtype(), "adam_step", [&]<class C>() {
    const AdamUpdate<C> update{
        .step_size = static_cast<C>(rate / correction1),
        .root_scale = static_cast<C>(1 / std::sqrt(correction2)),
        .beta1 = static_cast<C>(params.beta1),
        .beta2 = static_cast<C>(params.beta2),
        .rest1 = static_cast<C>(1 - params.beta1),
        .rest2 = static_cast<C>(1 - params.beta2),
        .eps = static_cast<C>(params.eps),
        .sign = params.maximize ? C(-1) : C(1),
        .decay_gradient = static_cast<C>(params.decoupled ? 0 : decay),
        .keep_weight = static_cast<C>(params.decoupled ? 1 - rate * decay : 1)};
    for_each_block<C, 5>(p.numel(), {p, g, m, v, max_v}, update);
  });
}

}  // namespace rondo::cpu
