#pragma once
// L-BFGS (Nocedal 1980; Liu and Nocedal 1989): a quasi-Newton method for functions without noise,
// such as a loss over all data, in PyTorch's form.
//
//   optim::LBFGS lbfgs(net.parameters(), {.line_search_fn = optim::LineSearch::strong_wolfe});
//   lbfgs.step([&] {
//     lbfgs.zero_grad();
//     Tensor loss = mse_loss(net(x), y);
//     loss.backward();
//     return loss;
//   });
//
// A step makes up to max_iter iterations: the direction d = −H g, where H approximates the inverse
// Hessian from the last history_size changes of the parameters (s) and of the gradient (y), and
// then p ← p + t d. t is lr (smaller in the very first iteration), or what the line search finds.
// All parameters count as one vector. The host waits for the device several times in each
// iteration.

#include "optim/composed.h"

namespace rondo::optim {

/// strong_wolfe: a cubic line search for the strong Wolfe conditions (Nocedal and Wright 2006,
/// algorithms 3.5 and 3.6), with c₁ = 1e-4 and c₂ = 0.9.
enum class LineSearch : std::uint8_t { none, strong_wolfe };

struct LBFGSOptions {
  double lr = 1;
  std::int64_t max_iter = 20;
  std::optional<std::int64_t> max_eval = {};  // none: max_iter · 5 / 4
  double tolerance_grad = 1e-7;               // stop if no element of the gradient is larger
  double tolerance_change = 1e-9;             // stop if the loss or all parameters change by less
  std::int64_t history_size = 100;
  LineSearch line_search_fn = LineSearch::none;
  bool maximize = false;
  std::vector<NamedOption> named();
};

class LBFGS final : public Optimizer {
 public:
  /// Throws Error for a negative rate, for counts below 1, and if the parameters differ in dtype or
  /// device.
  explicit LBFGS(Tensors params, LBFGSOptions options = {});

  const char* type() const override { return "LBFGS"; }
  /// 0: LBFGS has no momentum.
  double momentum(std::size_t = 0) const override { return 0; }
  /// Throws Error.
  void set_momentum(std::size_t group, double momentum) override;

  /// `closure` zeroes the gradients, computes the loss and its gradients, and returns the loss. It
  /// is called several times; the result is the loss of the first call. Throws the errors of
  /// Optimizer::step.
  Tensor step(const std::function<Tensor()>& closure) override;

 private:
  struct Memory;
  Memory load();
  void store(const Memory& now);
  /// A tensor of the state that is a number.
  const Tensor& number(std::size_t entry);
  /// Throws Error: the closure is missing.
  void update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) override;
  std::map<std::string, double> options(std::size_t group) const override;
  void set_options(std::size_t group, const std::map<std::string, double>& values) override;

  LBFGSOptions o_;
};

}  // namespace rondo::optim
