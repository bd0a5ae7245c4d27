#include "optim/adam_family.h"

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"
#include "tensor/creation.h"

namespace rondo::optim {
namespace {

std::vector<NamedOption> with_betas(Betas& betas, std::vector<NamedOption> others) {
  others.push_back({"beta1", &betas[0], NamedOption::below_one});
  others.push_back({"beta2", &betas[1], NamedOption::below_one});
  return others;
}

const std::vector<StateEntry> adam_state{{"step", StateEntry::scalar}, {"exp_avg"}, {"exp_avg_sq"}};

}  // namespace

// ---- NAdam

std::vector<NamedOption> NAdamOptions::named() {
  return with_betas(betas, {{"eps", &eps},
                            {"weight_decay", &weight_decay},
                            {"momentum_decay", &momentum_decay},
                            {"decoupled_weight_decay", &decoupled_weight_decay},
                            {"maximize", &maximize}});
}

template class Composed<NAdamOptions>;

NAdam::NAdam(Tensors params, NAdamOptions options) : NAdam(Groups{{std::move(params), options}}) {}

NAdam::NAdam(const Groups& groups)
    : Composed("NAdam", groups,
               {{"step", StateEntry::scalar},
                {"mu_product", StateEntry::scalar},
                {"exp_avg"},
                {"exp_avg_sq"}}) {}

double NAdam::initial_value(std::size_t /*group*/, std::size_t entry) const {
  return entry == 1 ? 1 : 0;
}

void NAdam::update(const NAdamOptions& o, const Parameter& x) {
  if (o.decoupled_weight_decay) decay(x, o.weight_decay);
  const Tensor g = o.decoupled_weight_decay ? x.g : with_decay(x, o.weight_decay);
  const Tensor &mu_product = x.state(1), &m = x.state(2), &v = x.state(3);
  const auto mu = [&](const Tensor& t) {
    return x.momentum * (1.0 - 0.5 * pow(full_like(t, 0.96), t * o.momentum_decay));
  };
  const Tensor now = mu(x.step()), next = mu(x.step() + 1.0);
  mu_product.mul_(now);
  lerp_(m, g, 1.0 - x.momentum);
  average_square_(v, g, 1 - o.betas[1]);
  const Tensor step = (1.0 - now) / (1.0 - mu_product) * g + next / (1.0 - mu_product * next) * m;
  x.p.sub_(x.lr * (step / (sqrt(v / bias_correction(x, o.betas[1])) + o.eps)));
}

// ---- RAdam

std::vector<NamedOption> RAdamOptions::named() {
  return with_betas(betas, {{"eps", &eps},
                            {"weight_decay", &weight_decay},
                            {"decoupled_weight_decay", &decoupled_weight_decay},
                            {"maximize", &maximize}});
}

template class Composed<RAdamOptions>;

RAdam::RAdam(Tensors params, RAdamOptions options) : RAdam(Groups{{std::move(params), options}}) {}

RAdam::RAdam(const Groups& groups) : Composed("RAdam", groups, adam_state) {}

void RAdam::update(const RAdamOptions& o, const Parameter& x) {
  if (o.decoupled_weight_decay) decay(x, o.weight_decay);
  const Tensor g = o.decoupled_weight_decay ? x.g : with_decay(x, o.weight_decay);
  const Tensor &m = x.state(1), &v = x.state(2);
  lerp_(m, g, 1.0 - x.momentum);
  average_square_(v, g, 1 - o.betas[1]);
  const Tensor correction1 = bias_correction(x, x.momentum),
               correction2 = bias_correction(x, o.betas[1]);
  // ρ is the length of a plain average with the variance of v; below 5 the variance is not known.
  const double rho_inf = 2 / (1 - o.betas[1]) - 1;
  const Tensor rho = rho_inf - 2.0 * x.step() * (1.0 - correction2) / correction2;
  const Tensor rectified = sqrt((rho - 4.0) * (rho - 2.0) * rho_inf /
                                ((rho_inf - 4) * (rho_inf - 2) * rho) * correction2);
  const Tensor is_known = gt(rho, 5.0);
  const Tensor scale = where(is_known, rectified / (sqrt(v) + o.eps), 1.0);
  x.p.sub_(x.lr / correction1 * (m * scale));
}

// ---- Adamax

std::vector<NamedOption> AdamaxOptions::named() {
  return with_betas(betas,
                    {{"eps", &eps}, {"weight_decay", &weight_decay}, {"maximize", &maximize}});
}

template class Composed<AdamaxOptions>;

Adamax::Adamax(Tensors params, AdamaxOptions options)
    : Adamax(Groups{{std::move(params), options}}) {}

Adamax::Adamax(const Groups& groups)
    : Composed("Adamax", groups, {{"step", StateEntry::scalar}, {"exp_avg"}, {"exp_inf"}}) {}

void Adamax::update(const AdamaxOptions& o, const Parameter& x) {
  const Tensor g = with_decay(x, o.weight_decay);
  const Tensor &m = x.state(1), &u = x.state(2);
  lerp_(m, g, 1.0 - x.momentum);
  u.copy_(maximum(u * o.betas[1], abs(g) + o.eps));
  x.p.sub_(x.lr / bias_correction(x, x.momentum) * (m / u));
}

// ---- Lion

std::vector<NamedOption> LionOptions::named() {
  return with_betas(betas, {{"weight_decay", &weight_decay}, {"maximize", &maximize}});
}

template class Composed<LionOptions>;

Lion::Lion(Tensors params, LionOptions options) : Lion(Groups{{std::move(params), options}}) {}

Lion::Lion(const Groups& groups) : Composed("Lion", groups, {{.name = "exp_avg"}}) {}

void Lion::update(const LionOptions& o, const Parameter& x) {
  const Tensor& m = x.state(0);
  decay(x, o.weight_decay);
  x.p.sub_(x.lr * sign(m + (1.0 - x.momentum) * (x.g - m)));
  lerp_(m, x.g, 1 - o.betas[1]);
}

}  // namespace rondo::optim
