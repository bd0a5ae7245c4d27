#include "optim/lbfgs.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/composed.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "nn/shown.h"
#include "tensor/creation.h"

namespace rondo::optim {
namespace {

// The state, which belongs to the first parameter as in PyTorch. From kHistory on there are three
// entries for each pair of the history.
enum Entry : std::size_t {
  kFuncEvals,
  kIterations,
  kT,
  kHDiag,
  kPrevLoss,
  kD,
  kPrevGrad,
  kHistory
};

std::vector<StateEntry> entries(std::int64_t history_size) {
  std::vector<StateEntry> all{{"func_evals", StateEntry::scalar},
                              {"n_iter", StateEntry::scalar},
                              {"t", StateEntry::scalar},
                              {"H_diag", StateEntry::scalar},
                              {"prev_loss", StateEntry::scalar},
                              {"d", StateEntry::all_elements},
                              {"prev_flat_grad", StateEntry::all_elements}};
  for (std::int64_t i = 0; i < history_size; ++i) {
    all.push_back({concat("old_dirs.", i), StateEntry::all_elements, true});
    all.push_back({concat("old_stps.", i), StateEntry::all_elements, true});
    all.push_back({concat("ro.", i), StateEntry::scalar, true});
  }
  return all;
}

/// A point p + t d of the line search; slope is the derivative with respect to t.
struct Point {
  double t, loss, slope;
  Tensor gradient;
};

/// The minimum between two points of the cubic with their losses and slopes.
double cubic_minimum(const Point& a, const Point& b, double low, double high) {
  const auto& [left, right] = a.t <= b.t ? std::tie(a, b) : std::tie(b, a);
  const double d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t);
  const double square = d1 * d1 - a.slope * b.slope;
  if (!(square >= 0)) return (low + high) / 2;
  const double d2 = std::sqrt(square);
  const double t = right.t - (right.t - left.t) *
                                 ((right.slope + d2 - d1) / (right.slope - left.slope + 2 * d2));
  return std::min(std::max(t, low), high);
}

/// A point that satisfies the strong Wolfe conditions, or the best one after max_iter iterations.
/// `at` evaluates the point with the given t. A bracket is narrower than `tolerance` if it moves no
/// parameter by more; `reach` is the largest element of d.
Point strong_wolfe(const std::function<Point(double t)>& at, const Point& start, double t,
                   double reach, double tolerance, std::int64_t max_iter) {
  constexpr double c1 = 1e-4, c2 = 0.9;
  const auto is_high = [&](const Point& p) { return p.loss > start.loss + c1 * p.t * start.slope; };
  const auto is_flat = [&](const Point& p) { return std::abs(p.slope) <= -c2 * start.slope; };
  Point before = start, now = at(t);
  std::array<Point, 2> bracket{start, now};
  std::int64_t i = 0;
  for (; i < max_iter; ++i) {  // moves on until a minimum is bracketed
    bracket = {before, now};
    if (is_high(now) || (i > 1 && now.loss >= before.loss)) break;
    if (is_flat(now)) return now;
    if (now.slope >= 0) break;
    const double next = cubic_minimum(before, now, now.t + 0.01 * (now.t - before.t), now.t * 10);
    before = now;
    now = at(next);
  }
  if (i == max_iter) bracket = {start, now};
  const auto lower = [&] { return bracket[0].loss <= bracket[1].loss ? 0 : 1; };
  std::size_t low = lower();
  bool is_slow = false;
  for (; i < max_iter; ++i) {  // narrows the bracket
    const auto [left, right] = std::minmax({bracket[0].t, bracket[1].t});
    if ((right - left) * reach < tolerance) break;
    t = cubic_minimum(bracket[0], bracket[1], left, right);
    const double margin = 0.1 * (right - left);
    // Two points in a row near the border, or one on it, are moved away from it.
    const bool is_near = std::min(right - t, t - left) < margin;
    if (is_near && (is_slow || t >= right || t <= left)) {
      t = std::abs(t - right) < std::abs(t - left) ? right - margin : left + margin;
      is_slow = false;
    } else {
      is_slow = is_near;
    }
    now = at(t);
    if (is_high(now) || now.loss >= bracket[low].loss) {
      bracket[1 - low] = now;
      low = lower();
      continue;
    }
    if (is_flat(now)) return now;
    if (now.slope * (bracket[1 - low].t - bracket[low].t) >= 0) bracket[1 - low] = bracket[low];
    bracket[low] = now;
  }
  return bracket[low];
}

/// The gradients of all parameters as one vector, with zeros for those without.
Tensor flat_gradient(const Tensors& params) {
  Tensors parts;
  for (const Tensor& p : params) {
    parts.push_back(p.grad().defined() ? p.grad().reshape({-1}) : zeros({p.numel()}, p.options()));
  }
  return cat(parts);
}

/// p ← p + t d.
void move(const Tensors& params, const Tensor& d, double t) {
  std::int64_t offset = 0;
  for (const Tensor& p : params) {
    p.add_(d.narrow(0, offset, p.numel()).reshape(p.shape()), t);
    offset += p.numel();
  }
}

double largest(const Tensor& x) { return max(abs(x)).item<double>(); }
double product(const Tensor& a, const Tensor& b) { return dot(a, b).item<double>(); }

/// Changes of the parameters and of the gradient in the last iterations, oldest first.
struct History {
  Tensors y, s;  // of the gradient, of the parameters
  std::vector<double> rho;

  /// −H g, where h_diag is the initial H, by the two-loop recursion.
  Tensor direction(const Tensor& gradient, double h_diag) const {
    const Tensor q = gradient.neg();
    std::vector<double> alpha(y.size());
    for (std::size_t i = y.size(); i-- > 0;) {
      alpha[i] = product(s[i], q) * rho[i];
      q.add_(y[i], -alpha[i]);
    }
    const Tensor d = q * h_diag;
    for (std::size_t i = 0; i < y.size(); ++i) {
      d.add_(s[i], alpha[i] - product(y[i], d) * rho[i]);
    }
    return d;
  }
};

}  // namespace

std::vector<NamedOption> LBFGSOptions::named() {
  constexpr OptionRange counts{1, 0x1p53};
  return {{"max_iter", &max_iter, counts},
          {"max_eval", &*max_eval, counts},
          {"tolerance_grad", &tolerance_grad},
          {"tolerance_change", &tolerance_change},
          {"history_size", &history_size, counts},
          {"line_search_fn", &line_search_fn, {0, 1}},
          {"maximize", &maximize}};
}

LBFGS::LBFGS(Tensors params, LBFGSOptions options)
    : Optimizer({std::move(params)}, {options.lr}, entries(options.history_size),
                Updates::whole_parameters),
      o_(options) {
  if (!o_.max_eval) o_.max_eval = std::max<std::int64_t>(1, o_.max_iter * 5 / 4);
  detail::require_nonnegative("LBFGS", "lr", o_.lr);
  for (const NamedOption& option : o_.named()) option.check("LBFGS", option.get());
  for (const Tensor& p : this->params()) {
    require<DTypeError>(p.dtype() == this->params()[0].dtype(), "LBFGS: one parameter is ",
                        p.dtype(), ", another ", this->params()[0].dtype(),
                        "; all must have one dtype, since they are one vector");
  }
}

void LBFGS::set_momentum(std::size_t /*group*/, double /*momentum*/) {
  throw Error(
      "LBFGS.set_momentum: LBFGS has no momentum; schedules that cycle the momentum need "
      "cycle_momentum = false");
}

void LBFGS::update(std::size_t /*group*/, std::vector<Update>& /*updates*/,
                   const Tensor& /*found_inf*/) {
  throw Error(
      "LBFGS.step: needs a closure that computes the loss and its gradients; call step(closure), "
      "without a GradScaler");
}

Tensor LBFGS::step(const std::function<Tensor()>& closure) {
  require(closure != nullptr, "LBFGS.step: the closure is empty");
  const NoGradGuard no_grad;
  const Tensors& all = params();
  const double sign = o_.maximize ? -1 : 1;
  std::int64_t evaluations = 0;
  Tensor first_loss, gradient;
  const auto evaluate = [&] {  // returns the loss, and sets the gradient
    Tensor loss;
    {
      const GradModeGuard grad(true);
      loss = closure();
    }
    if (++evaluations == 1) {
      nn::detail::require_all_shown(type());
      check_parameters(0);
      first_loss = loss;
    }
    gradient = flat_gradient(all) * sign;
    return sign * loss.item<double>();
  };
  double loss = evaluate();
  ParamState& state = state_of(0, 0);
  const auto number = [&](std::size_t entry) -> const Tensor& {
    if (!state[entry].defined()) state[entry] = make_state(0, 0, entry);
    return state[entry];
  };
  auto iterations = number(kIterations).item<std::int64_t>();
  const auto evaluations_before = number(kFuncEvals).item<std::int64_t>();
  const auto count_evaluations = [&] {
    number(kFuncEvals).fill_(evaluations_before + evaluations);
  };
  count_evaluations();
  if (largest(gradient) <= o_.tolerance_grad) return first_loss;

  History history;
  for (std::size_t k = kHistory; k < state.size() && state[k].defined(); k += 3) {
    history.y.push_back(state[k]);
    history.s.push_back(state[k + 1]);
    history.rho.push_back(state[k + 2].item<double>());
  }
  Tensor d = state[kD], gradient_before = state[kPrevGrad];
  double t = number(kT).item<double>(), h_diag = number(kHDiag).item<double>();
  double loss_before = 0;
  for (std::int64_t i = 1;; ++i) {
    if (++iterations == 1) {
      d = gradient.neg();
      h_diag = 1;
      t = std::min(1.0, 1 / abs(gradient).sum().item<double>()) * lr();
    } else {
      const Tensor y = gradient - gradient_before, s = d * t;
      if (const double ys = product(y, s); ys > 1e-10) {
        if (std::ssize(history.y) == o_.history_size) {
          history.y.erase(history.y.begin());
          history.s.erase(history.s.begin());
          history.rho.erase(history.rho.begin());
        }
        history.y.push_back(y);
        history.s.push_back(s);
        history.rho.push_back(1 / ys);
        h_diag = ys / product(y, y);
      }
      d = history.direction(gradient, h_diag);
      t = lr();
    }
    gradient_before = gradient;
    loss_before = loss;
    const double slope = product(gradient, d);
    if (slope > -o_.tolerance_change) break;
    if (o_.line_search_fn == LineSearch::strong_wolfe) {
      Tensors start;
      for (const Tensor& p : all) start.push_back(p.clone());
      const auto at = [&](double distance) {
        move(all, d, distance);
        const double value = evaluate();
        for (std::size_t k = 0; k < all.size(); ++k) all[k].copy_(start[k]);
        return Point{distance, value, product(gradient, d), gradient};
      };
      const Point found = strong_wolfe(at, {0, loss, slope, gradient}, t, largest(d),
                                       o_.tolerance_change, *o_.max_eval - evaluations);
      t = found.t;
      loss = found.loss;
      gradient = found.gradient;
      move(all, d, t);
    } else {
      move(all, d, t);
      if (i < o_.max_iter) loss = evaluate();  // after the last iteration nobody needs it
    }
    if (i == o_.max_iter || evaluations >= *o_.max_eval || largest(gradient) <= o_.tolerance_grad ||
        largest(d) * t <= o_.tolerance_change ||
        std::abs(loss - loss_before) < o_.tolerance_change) {
      break;
    }
  }

  count_evaluations();
  number(kIterations).fill_(iterations);
  number(kT).fill_(t);
  number(kHDiag).fill_(h_diag);
  number(kPrevLoss).fill_(loss_before);
  state[kD] = d;
  state[kPrevGrad] = gradient_before;
  for (std::size_t i = 0; i < history.y.size(); ++i) {
    state[kHistory + 3 * i] = history.y[i];
    state[kHistory + 3 * i + 1] = history.s[i];
    number(kHistory + 3 * i + 2).fill_(history.rho[i]);
  }
  return first_loss;
}

std::map<std::string, double> LBFGS::options(std::size_t /*group*/) const {
  std::map<std::string, double> values;
  LBFGSOptions o = o_;
  for (const NamedOption& option : o.named()) values[option.name] = option.get();
  return values;
}

void LBFGS::set_options(std::size_t /*group*/, const std::map<std::string, double>& values) {
  LBFGSOptions o = o_;
  for (const NamedOption& option : o.named()) {
    const double value = detail::option("LBFGS", values, option.name.c_str());
    option.check("LBFGS", value);
    option.set(value);
  }
  require(o.history_size == o_.history_size, "LBFGS.load_state_dict: the state has history_size ",
          o.history_size, ", the optimizer ", o_.history_size,
          "; construct it with that of the state");
  o_ = o;
}

}  // namespace rondo::optim
