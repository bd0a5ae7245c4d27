#pragma once
// SGD: stochastic gradient descent with momentum, in PyTorch's form.
//
//   g ← g + weight_decay · p                       (−g first, with maximize)
//   b ← momentum · b + (1 − dampening) · g         (b = g on the first step)
//   p ← p − lr · (nesterov ? g + momentum · b : b)
//
// The rate multiplies the buffer, not the gradient that enters it, so a change of rate takes effect
// at once (Sutskever et al. 2013 define it the other way; see torch.optim.SGD).

#include "optim/optimizer.h"

namespace rondo::optim {

struct SgdOptions {
  double lr = 1e-3;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
  bool maximize = false;
};

class SGD final : public Optimizer {
 public:
  /// Throws Error for a negative rate, momentum or decay, and for nesterov without momentum or with
  /// dampening.
  explicit SGD(Tensors params, SgdOptions options = {});
  explicit SGD(const std::vector<ParamGroup<SgdOptions>>& groups);

  /// Adds parameters to train, for example of layers that were frozen so far. Call it before
  /// schedules, ZeroSharding and captured steps are made. If it throws, nothing has changed: Error
  /// for a parameter that is already trained and for invalid options.
  void add_param_group(ParamGroup<SgdOptions> group);

  const char* type() const override { return "SGD"; }
  double momentum(std::size_t group = 0) const override { return options_.at(group).momentum; }
  void set_momentum(std::size_t group, double momentum) override;

 private:
  void update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) override;
  std::map<std::string, double> options(std::size_t group) const override;
  void set_options(std::size_t group, const std::map<std::string, double>& values) override;

  std::vector<SgdOptions> options_;
};

}  // namespace rondo::optim
