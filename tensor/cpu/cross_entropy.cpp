// Cross-entropy of a line of logits x and the target distribution t (Backend::cross_entropy), in
// one pass over a line that fits the first-level cache:
//
//   loss = -Σ_c t_c log softmax(x)_c = log Σ_c exp(x_c - m) - Σ_c t_c (x_c - m),  m = max x
//   d loss / d x_c = softmax(x)_c - t_c,  softmax(x)_c = exp(x_c - m - log Σ exp(x - m))
//
// Both m and the logarithm are stored for the gradient: their sum alone would lose the small
// differences between large logits. The sums are accumulated in double.

#include <cmath>

#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/lines.h"
#include "tensor/cpu/log_sum_exp.h"

namespace rondo::cpu {
namespace {

/// The rows of Backend::cross_entropy's `lines`, each dense.
template <class C>
struct LineRows {
  C *loss, *counted, *top, *log_sum;
  explicit LineRows(const Tensor& lines)
      : loss(static_cast<C*>(lines.data_ptr())),
        counted(loss + lines.stride(0)),
        top(counted + lines.stride(0)),
        log_sum(top + lines.stride(0)) {}
};

// dx_c = (exp(x_c - top - log_sum) - share) weight
void gradient(const float* x, std::int64_t n, float top, float log_sum, float share, float weight,
              float* dx) {
  kernels().softmax.cross_entropy_gradient(x, n, top, log_sum, share, weight, dx);
}
void gradient(const double* x, std::int64_t n, double top, double log_sum, double share,
              double weight, double* dx) {
  for (std::int64_t c = 0; c < n; ++c) dx[c] = (std::exp(x[c] - top - log_sum) - share) * weight;
}

const std::int64_t* indices(const Tensor& target) {
  return static_cast<const std::int64_t*>(target.data_ptr());
}

}  // namespace

void CpuBackend::do_cross_entropy(const Tensor& logits, const Tensor& target,
                                  const CrossEntropyParams& params, const Tensor& lines) {
  const std::int64_t n = logits.size(1), stride = logits.stride(1);
  const double smoothing = params.label_smoothing, share = smoothing / static_cast<double>(n);
  visit_float_compute(logits.dtype(), "cross_entropy", [&]<class C>() {
    const LineRows<C> rows(lines);
    auto make_body = [&] {
      return [&,
              buffer = std::vector<C>(static_cast<std::size_t>(n))](const Offsets<3>& at) mutable {
        const C* x = dense_line(logits.dtype(), logits.data_ptr(), at[0], stride, n, buffer.data());
        const std::int64_t index = indices(target)[at[1]], line = at[2];
        const auto [top, log_sum] = log_sum_exp(x, n);
        double all = 0;
        if (smoothing != 0) {  // otherwise -inf would be multiplied by 0
          for (std::int64_t c = 0; c < n; ++c) all += static_cast<double>(x[c] - top);
        }
        const bool counted = index != params.ignore_index;
        rows.loss[line] =
            counted ? static_cast<C>(log_sum - (1 - smoothing) * (x[index] - top) - share * all)
                    : C(0);
        rows.counted[line] = counted;
        rows.top[line] = top;
        rows.log_sum[line] = static_cast<C>(log_sum);
      };
    };
    for_each_line(1, make_body, logits, target, first_row(lines));
  });
}

void CpuBackend::do_cross_entropy_backward(const Tensor& dloss, const Tensor& logits,
                                           const Tensor& target, const Tensor& lines,
                                           const CrossEntropyParams& params,
                                           const Tensor& dlogits) {
  const std::int64_t n = logits.size(1);
  const std::int64_t stride = logits.stride(1), out_stride = dlogits.stride(1);
  visit_float_compute(logits.dtype(), "cross_entropy", [&]<class C>() {
    const LineRows<C> rows(lines);
    const C share = static_cast<C>(params.label_smoothing / static_cast<double>(n));
    const C rest = static_cast<C>(1 - params.label_smoothing);
    const bool dense = dlogits.dtype() == dtype_of<C> && out_stride == 1;
    auto make_body = [&] {
      const auto size = static_cast<std::size_t>(n);
      return
          [&, in = std::vector<C>(size), out = std::vector<C>(size)](const Offsets<5>& at) mutable {
            const C* x = dense_line(logits.dtype(), logits.data_ptr(), at[0], stride, n, in.data());
            C* dx = dense ? static_cast<C*>(dlogits.data_ptr()) + at[1] : out.data();
            const std::int64_t index = indices(target)[at[2]], line = at[3];
            const C weight = static_cast<const C*>(dloss.data_ptr())[at[4]];
            if (index == params.ignore_index) {
              std::fill_n(dx, n, C(0));
            } else {
              gradient(x, n, rows.top[line], rows.log_sum[line], share, weight, dx);
              dx[index] -= rest * weight;
            }
            if (!dense) store(dlogits.dtype(), dlogits.data_ptr(), at[1], out_stride, n, dx);
          };
    };
    for_each_line(1, make_body, logits, dlogits, target, first_row(lines), dloss);
  });
}

}  // namespace rondo::cpu
