#include "optim/layerwise.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/matmul.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"

namespace rondo::optim {
namespace {

/// a / b; 1 if a or b is 0.
Tensor trust_ratio(const Tensor& a, const Tensor& b) {
  return where(logical_and(gt(a, 0.0), gt(b, 0.0)), a / b, 1.0);
}

/// Scales the singular values of a matrix to about 1.
Tensor newton_schulz(const Tensor& matrix, const MuonOptions& o) {
  const auto [a, b, c] = o.ns_coefficients;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  Tensor x = is_tall ? matrix.t().to(bf16) : matrix.to(bf16);
  x = x / norm(x).clamp(o.eps, std::numeric_limits<double>::infinity());
  for (std::int64_t i = 0; i < o.ns_steps; ++i) {
    const Tensor gram = matmul(x, x.t());
    const Tensor polynomial = addmm(gram, gram, gram, {.beta = b, .alpha = c});
    x = addmm(x, polynomial, x, {.beta = a});
  }
  return is_tall ? x.t() : x;
}

double lr_factor(MuonAdjustLr how, const Dims& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  switch (how) {
    case MuonAdjustLr::original:
      return std::sqrt(std::max(1.0, rows / columns));
    case MuonAdjustLr::match_rms_adamw:
      return 0.2 * std::sqrt(std::max(rows, columns));
    case MuonAdjustLr::spectral_unclamped:
      return std::sqrt(rows / columns);
  }
  return 1;
}

}  // namespace

// ---- LARS

std::vector<NamedOption> LARSOptions::named() {
  return {{"momentum", &momentum},
          {"weight_decay", &weight_decay},
          {"trust_coefficient", &trust_coefficient},
          {"maximize", &maximize}};
}

template class Composed<LARSOptions>;

LARS::LARS(Tensors params, LARSOptions options) : LARS(Groups{{std::move(params), options}}) {}

LARS::LARS(const Groups& groups)
    : Composed("LARS", groups, {{.name = "momentum_buffer"}}, Updates::whole_parameters) {}

void LARS::update(const LARSOptions& o, const Parameter& x) {
  const Tensor length = norm(x.p);
  const Tensor ratio =
      trust_ratio(o.trust_coefficient * length, norm(x.g) + o.weight_decay * length);
  const Tensor& b = x.state(0);
  b.mul_(x.momentum).add_(x.lr * ratio * with_decay(x, o.weight_decay));
  x.p.sub_(b);
}

// ---- LAMB

std::vector<NamedOption> LAMBOptions::named() {
  return {{"beta1", &betas[0], NamedOption::below_one},
          {"beta2", &betas[1], NamedOption::below_one},
          {"eps", &eps},
          {"weight_decay", &weight_decay},
          {"maximize", &maximize}};
}

template class Composed<LAMBOptions>;

LAMB::LAMB(Tensors params, LAMBOptions options) : LAMB(Groups{{std::move(params), options}}) {}

LAMB::LAMB(const Groups& groups)
    : Composed("LAMB", groups, {{"step", StateEntry::scalar}, {"exp_avg"}, {"exp_avg_sq"}},
               Updates::whole_parameters) {}

void LAMB::update(const LAMBOptions& o, const Parameter& x) {
  const Tensor &m = x.state(1), &v = x.state(2);
  lerp_(m, x.g, 1.0 - x.momentum);
  average_square_(v, x.g, 1 - o.betas[1]);
  const Tensor adam =
      m / bias_correction(x, x.momentum) / (sqrt(v / bias_correction(x, o.betas[1])) + o.eps);
  const Tensor d = add(adam, x.p, o.weight_decay);
  x.p.sub_(x.lr * trust_ratio(norm(x.p), norm(d)) * d);
}

// ---- Muon

std::vector<NamedOption> MuonOptions::named() {
  return {{"weight_decay", &weight_decay},
          {"momentum", &momentum},
          {"nesterov", &nesterov},
          {"ns_a", &ns_coefficients[0], NamedOption::finite},
          {"ns_b", &ns_coefficients[1], NamedOption::finite},
          {"ns_c", &ns_coefficients[2], NamedOption::finite},
          {"eps", &eps},
          {"ns_steps", &ns_steps, {0, 99}},
          {"adjust_lr_fn", &adjust_lr_fn, {0, 2}}};
}

template class Composed<MuonOptions>;

Muon::Muon(Tensors params, MuonOptions options) : Muon(Groups{{std::move(params), options}}) {}

Muon::Muon(const Groups& groups)
    : Composed("Muon", groups, {{.name = "momentum_buffer"}}, Updates::whole_parameters) {
  for (const auto& group : groups) check_parameters_of(group.params);
}

void Muon::check_parameters_of(const Tensors& params) const {
  for (const Tensor& p : params)
    require<ShapeError>(p.dim() == 2, "Muon: a parameter has shape ", p.shape(),
                        ", but must be a matrix; train it with another optimizer such as AdamW");
}

void Muon::update(const MuonOptions& o, const Parameter& x) {
  const Tensor& b = x.state(0);
  lerp_(b, x.g, 1.0 - x.momentum);
  const Tensor d = o.nesterov ? x.g + x.momentum * (b - x.g) : b;
  decay(x, o.weight_decay);
  x.p.sub_(x.lr * lr_factor(o.adjust_lr_fn, x.p.shape()) * newton_schulz(d, o).to(x.p.dtype()));
}

}  // namespace rondo::optim
