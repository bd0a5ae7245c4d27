#include "optim/adaptive.h"

#include <cmath>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/unary.h"

namespace rondo::optim {

// ---- Adagrad: state 1 is the sum of squares

std::vector<NamedOption> AdagradOptions::named() {
  return {{"lr_decay", &lr_decay},
          {"weight_decay", &weight_decay},
          {"initial_accumulator_value", &initial_accumulator_value},
          {"eps", &eps},
          {"maximize", &maximize}};
}

template class Composed<AdagradOptions>;

Adagrad::Adagrad(Tensors params, AdagradOptions options)
    : Adagrad(Groups{{std::move(params), options}}) {}

Adagrad::Adagrad(const Groups& groups)
    : Composed("Adagrad", groups, {{"step", StateEntry::scalar}, {"sum"}}) {}

double Adagrad::initial_value(std::size_t group, std::size_t entry) const {
  return entry == 1 ? options_of(group).initial_accumulator_value : 0;
}

void Adagrad::update(const AdagradOptions& o, const Parameter& x) {
  const Tensor g = with_decay(x, o.weight_decay);
  const Tensor& sum = x.state(1);
  sum.add_(square(g));
  const Tensor lr = x.lr / (1.0 + (x.step() - 1.0) * o.lr_decay);
  x.p.sub_(lr * (g / (sqrt(sum) + o.eps)));
}

// ---- Adadelta: state 1 is the average of g², state 2 that of d²

std::vector<NamedOption> AdadeltaOptions::named() {
  return {{"rho", &rho, NamedOption::at_most_one},
          {"eps", &eps},
          {"weight_decay", &weight_decay},
          {"maximize", &maximize}};
}

template class Composed<AdadeltaOptions>;

Adadelta::Adadelta(Tensors params, AdadeltaOptions options)
    : Adadelta(Groups{{std::move(params), options}}) {}

Adadelta::Adadelta(const Groups& groups)
    : Composed("Adadelta", groups, {{"step", StateEntry::scalar}, {"square_avg"}, {"acc_delta"}}) {}

void Adadelta::update(const AdadeltaOptions& o, const Parameter& x) {
  const Tensor g = with_decay(x, o.weight_decay);
  const Tensor &v = x.state(1), &u = x.state(2);
  average_square_(v, g, 1 - o.rho);
  const Tensor d = sqrt(u + o.eps) / sqrt(v + o.eps) * g;
  average_square_(u, d, 1 - o.rho);
  x.p.sub_(x.lr * d);
}

// ---- RMSprop: state 1 is the average of g², state 2 the momentum, state 3 the average of g

std::vector<NamedOption> RMSpropOptions::named() {
  return {{"alpha", &alpha},       {"eps", &eps},           {"weight_decay", &weight_decay},
          {"momentum", &momentum}, {"centered", &centered}, {"maximize", &maximize}};
}

template class Composed<RMSpropOptions>;

RMSprop::RMSprop(Tensors params, RMSpropOptions options)
    : RMSprop(Groups{{std::move(params), options}}) {}

RMSprop::RMSprop(const Groups& groups)
    : Composed("RMSprop", groups,
               {{"step", StateEntry::scalar},
                {"square_avg"},
                {"momentum_buffer", StateEntry::like_parameter, true},
                {"grad_avg", StateEntry::like_parameter, true}}) {}

void RMSprop::update(const RMSpropOptions& o, const Parameter& x) {
  const Tensor g = with_decay(x, o.weight_decay);
  const Tensor& square_avg = x.state(1);
  average_square_(square_avg, g, 1 - o.alpha);
  Tensor variance = square_avg;
  if (o.centered) {
    lerp_(x.state(3), g, 1 - o.alpha);
    variance = clamp(square_avg - square(x.state(3)), 0.0, INFINITY);  // not below 0 by rounding
  }
  Tensor d = g / (sqrt(variance) + o.eps);
  if (o.momentum > 0) d = x.state(2).mul_(x.momentum).add_(d);
  x.p.sub_(x.lr * d);
}

}  // namespace rondo::optim
