// One optimizer step over one parameter: a single pass over flat memory, in blocks that stay in the
// first-level cache. Also the operations of a GradScaler on gradients before the step.
//
// f32 and f64 are updated in place. Other parameters (bf16, f16) and mixtures (a bf16 weight with
// f32 moments) are widened to f32 one block at a time, updated with the same code, and rounded once
// when stored. The update rule for an element is in tensor/optimizer_rule.h.

#include <algorithm>
#include <atomic>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/optimizer_rule.h"

namespace rondo::cpu {
namespace {

constexpr std::int64_t block = 1024;

/// One tensor of the pass: gives access to blocks of it as C, in place if its dtype is C.
template <class C>
class Column {
 public:
  explicit Column(const Tensor& x) : defined_(x.defined()) {
    if (!defined_) return;
    data_ = x.data_ptr();
    dtype_ = x.dtype();
  }
  /// Elements begin … begin+n-1, in `buffer` unless they can be used in place; null if the tensor
  /// is undefined.
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

/// Calls update(n, pointers) for every block, in parallel. Writes back all columns except column 1,
/// the gradient.
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
void sgd_block(const SgdRule<C>& rule, std::int64_t n, const std::array<C*, 3>& at) {
  C* __restrict p = at[0];
  const C* __restrict g = at[1];
  C* __restrict buffer = at[2];
  if (!buffer) {
    for (std::int64_t i = 0; i < n; ++i) rule(p[i], g[i]);
  } else {
    if (rule.first_step) std::fill_n(buffer, n, C(0));
    for (std::int64_t i = 0; i < n; ++i) rule(p[i], g[i], buffer[i]);
  }
}

template <class C>
void adam_block(const AdamRule<C>& rule, std::int64_t n, const std::array<C*, 5>& at) {
  C* __restrict p = at[0];
  const C* __restrict g = at[1];
  C* __restrict m = at[2];
  C* __restrict v = at[3];
  C* __restrict max_v = at[4];
  for (std::int64_t i = 0; i < n; ++i) rule.moments(p[i], g[i], m[i], v[i]);
  const C* second = v;
  if (max_v) {
    for (std::int64_t i = 0; i < n; ++i) max_v[i] = v[i] > max_v[i] ? v[i] : max_v[i];
    second = max_v;
  }
  for (std::int64_t i = 0; i < n; ++i) rule.step(p[i], m[i], second[i]);
}

}  // namespace

void CpuBackend::do_sgd_step(const Tensor& p, const Tensor& g, const Tensor& buffer,
                             const Tensor& rates, const SgdParams& params) {
  visit_float_compute(p.dtype(), "sgd_step", [&]<class C>() {
    const SgdRule<C> rule(rates.data_ptr<double>(), params);
    for_each_block<C, 3>(p.numel(), {p, g, buffer},
                         [&](std::int64_t n, const auto& at) { sgd_block(rule, n, at); });
  });
}

void CpuBackend::do_adam_step(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v,
                              const Tensor& max_v, const Tensor& rates, const Tensor& step,
                              const AdamParams& params) {
  visit_float_compute(p.dtype(), "adam_step", [&]<class C>() {
    const AdamRule<C> rule(rates.data_ptr<double>(), *step.data_ptr<double>(), params);
    for_each_block<C, 5>(p.numel(), {p, g, m, v, max_v},
                         [&](std::int64_t n, const auto& at) { adam_block(rule, n, at); });
  });
}

void CpuBackend::do_unscale(std::span<const Tensor> gradients, const Tensor& scale,
                            const Tensor& found_inf) {
  std::atomic<bool> all_finite = true;
  for (const Tensor& g : gradients) {
    visit_float_compute(g.dtype(), "unscale", [&]<class C>() {
      const C inverse = C(1) / static_cast<C>(*scale.data_ptr<float>());
      for_each_block<C, 1>(g.numel(), {g}, [&](std::int64_t n, const auto& at) {
        C* __restrict values = at[0];
        int finite = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          finite += values[i] - values[i] == C(0);  // v - v is NaN for an infinity or a NaN
          values[i] *= inverse;
        }
        if (finite != n) all_finite = false;
      });
    });
  }
  if (!all_finite) *found_inf.data_ptr<float>() = 1;
}

}  // namespace rondo::cpu
