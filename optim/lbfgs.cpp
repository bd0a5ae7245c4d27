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

}  // namespace

/// What one iteration needs of the iterations before it.
struct LBFGS::Memory {
  /// Changes of the parameters and of the gradient in the last iterations, oldest first.
  struct History {
    Tensors y, s;  // of the gradient, of the parameters
    std::vector<double> rho;

    void add(const Tensor& dy, const Tensor& ds, double ys, std::int64_t most) {
      if (std::ssize(y) == most) {
        y.erase(y.begin());
        s.erase(s.begin());
        rho.erase(rho.begin());
      }
      y.push_back(dy);
      s.push_back(ds);
      rho.push_back(1 / ys);
    }
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

  std::int64_t iterations = 0, evaluations = 0;  // in all steps
  double t = 0, h_diag = 0, loss = 0, loss_before = 0;
  Tensor d, gradient, gradient_before;
  History history;

  /// Chooses d, and the t to try first.
  void next_direction(double lr, std::int64_t history_size) {
    if (++iterations == 1) {
      d = gradient.neg();
      h_diag = 1;
      t = std::min(1.0, 1 / abs(gradient).sum().item<double>()) * lr;
    } else {
      const Tensor dy = gradient - gradient_before, ds = d * t;
      if (const double ys = product(dy, ds); ys > 1e-10) {
        history.add(dy, ds, ys, history_size);
        h_diag = ys / product(dy, dy);
      }
      d = history.direction(gradient, h_diag);
      t = lr;
    }
    gradient_before = gradient;
    loss_before = loss;
  }
};

std::vector<NamedOption> LBFGSOptions::named() {
  constexpr OptionRange counts{1, 0x1p53};
  if (!max_eval) max_eval = std::max<std::int64_t>(1, max_iter * 5 / 4);
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
  Memory now = load();
  const std::int64_t last_evaluation = now.evaluations + *o_.max_eval;
  const auto evaluate = [&] {
    Tensor loss;
    {
      const GradModeGuard grad(true);
      loss = closure();
    }
    check_parameters(0);
    const double sign = o_.maximize ? -1 : 1;
    now.gradient = flat_gradient(all) * sign;
    now.loss = sign * loss.item<double>();
    ++now.evaluations;
    return loss;
  };
  const Tensor first_loss = evaluate();
  nn::detail::require_all_shown(type());
  number(kFuncEvals).fill_(now.evaluations);
  if (largest(now.gradient) <= o_.tolerance_grad) return first_loss;

  for (std::int64_t i = 1;; ++i) {
    now.next_direction(lr(), o_.history_size);
    const double slope = product(now.gradient, now.d);
    if (slope > -o_.tolerance_change) break;
    if (o_.line_search_fn == LineSearch::strong_wolfe) {
      Tensors start;
      for (const Tensor& p : all) start.push_back(p.clone());
      const auto at = [&](double t) {
        move(all, now.d, t);
        evaluate();
        for (std::size_t k = 0; k < all.size(); ++k) all[k].copy_(start[k]);
        return Point{t, now.loss, product(now.gradient, now.d), now.gradient};
      };
      const Point found =
          strong_wolfe(at, {0, now.loss, slope, now.gradient}, now.t, largest(now.d),
                       o_.tolerance_change, last_evaluation - now.evaluations);
      now.t = found.t;
      now.loss = found.loss;
      now.gradient = found.gradient;
      move(all, now.d, now.t);
    } else {
      move(all, now.d, now.t);
      if (i < o_.max_iter) evaluate();  // the next step begins with an evaluation anyway
    }
    if (i == o_.max_iter || now.evaluations >= last_evaluation ||
        largest(now.gradient) <= o_.tolerance_grad ||
        largest(now.d) * now.t <= o_.tolerance_change ||
        std::abs(now.loss - now.loss_before) < o_.tolerance_change) {
      break;
    }
  }
  store(now);
  return first_loss;
}

const Tensor& LBFGS::number(std::size_t entry) {
  Tensor& s = state_of(0, 0)[entry];
  if (!s.defined()) s = make_state(0, 0, entry);
  return s;
}

LBFGS::Memory LBFGS::load() {
  const ParamState& state = state_of(0, 0);
  Memory now{.iterations = number(kIterations).item<std::int64_t>(),
             .evaluations = number(kFuncEvals).item<std::int64_t>(),
             .t = number(kT).item<double>(),
             .h_diag = number(kHDiag).item<double>(),
             .d = state[kD],
             .gradient = {},
             .gradient_before = state[kPrevGrad],
             .history = {}};
  for (std::size_t k = kHistory; k < state.size() && state[k].defined(); k += 3) {
    now.history.y.push_back(state[k]);
    now.history.s.push_back(state[k + 1]);
    now.history.rho.push_back(state[k + 2].item<double>());
  }
  return now;
}

void LBFGS::store(const Memory& now) {
  ParamState& state = state_of(0, 0);
  number(kFuncEvals).fill_(now.evaluations);
  number(kIterations).fill_(now.iterations);
  number(kT).fill_(now.t);
  number(kHDiag).fill_(now.h_diag);
  number(kPrevLoss).fill_(now.loss_before);
  state[kD] = now.d;
  state[kPrevGrad] = now.gradient_before;
  for (std::size_t i = 0; i < now.history.y.size(); ++i) {
    state[kHistory + 3 * i] = now.history.y[i];
    state[kHistory + 3 * i + 1] = now.history.s[i];
    number(kHistory + 3 * i + 2).fill_(now.history.rho[i]);
  }
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
