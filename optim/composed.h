#pragma once
// ComposedOptimizer: the common part of the optimizers that are written with tensor ops instead of
// a kernel of their own. Each of them gives its options, the names of its state, and its formula
// for one parameter:
//
//   void Adagrad::update(const AdagradOptions& o, const Parameter& x) {
//     const Tensor g = with_decay(x, o.weight_decay);
//     x.state(1).add_(square(g));
//     x.p.sub_(x.lr / (1.0 + (x.step() - 1.0) * o.lr_decay) * g / (sqrt(x.state(1)) + o.eps));
//   }
//
// The learning rate, the momentum and the step count are tensors on the device (Note [Rates live on
// the device] in optimizer.h), so the formulas compute with 0-dim f64 tensors. They never wait for
// the device.
//
// Read next: adaptive.h.

#include <functional>
#include <limits>
#include <type_traits>

#include "optim/optimizer.h"

namespace rondo::optim {

/// low ≤ value ≤ high, or value < high.
struct OptionRange {
  double low, high;
  bool is_open = false;
};

/// An option of an optimizer: its name in the state, how to read and write it, its valid values.
struct NamedOption {
  static constexpr double infinity = std::numeric_limits<double>::infinity();
  static constexpr OptionRange nonnegative{0, infinity}, below_one{0, 1, true}, at_most_one{0, 1},
      finite{-infinity, infinity};

  /// T is double, bool, an integer or an enumeration.
  template <class T>
  NamedOption(std::string name, T* value, OptionRange range = nonnegative)
      : name(std::move(name)),
        get([value] { return static_cast<double>(*value); }),
        set([value](double number) { *value = static_cast<T>(number); }),
        range(range),
        is_integer(!std::is_floating_point_v<T>) {}

  std::string name;
  std::function<double()> get;
  std::function<void(double)> set;
  OptionRange range;
  bool is_integer;

  /// Throws Error "RMSprop: alpha is -1, but must be finite and not negative".
  void check(const char* type, double number) const;
};

class ComposedOptimizer : public Optimizer {
 public:
  const char* type() const override { return type_; }
  /// The option "momentum" or "beta1"; 0 without such an option.
  double momentum(std::size_t group = 0) const override;
  /// Throws Error for an optimizer without momentum.
  void set_momentum(std::size_t group, double momentum) override;

 protected:
  ComposedOptimizer(const char* type, std::vector<Tensors> groups, const std::vector<double>& lrs,
                    std::vector<StateEntry> entries, Updates updates);

  /// One parameter in one step.
  struct Parameter {
    Tensor p, g;          // g: the gradient, negative with maximize
    Tensor lr, momentum;  // 0-dim f64; momentum may be the first beta
    /// A tensor of the state, which is made when it is first used. Write it in place.
    std::function<const Tensor&(std::size_t entry)> state;
    /// t: 1 in the first step. It is the state's entry 0.
    const Tensor& step() const { return state(0); }
  };
  /// g + weight_decay · p.
  static Tensor with_decay(const Parameter& x, double weight_decay);
  /// p ← p − lr · weight_decay · p.
  static void decay(const Parameter& x, double weight_decay);
  /// average ← average + weight · (x − average), in place.
  static void lerp_(const Tensor& average, const Tensor& x, double weight);
  static void lerp_(const Tensor& average, const Tensor& x, const Tensor& weight);
  /// average ← (1 − weight) · average + weight · x², in place.
  static void average_square_(const Tensor& average, const Tensor& x, double weight);
  /// 1 − βᵗ, which corrects an average that started at zero.
  static Tensor bias_correction(const Parameter& x, double beta);
  static Tensor bias_correction(const Parameter& x, const Tensor& beta);

  virtual std::vector<NamedOption> named(std::size_t group) = 0;
  virtual void update_parameter(std::size_t group, Parameter& x) = 0;
  /// The value with which a state starts.
  virtual double initial_value(std::size_t /*group*/, std::size_t /*entry*/) const { return 0; }
  /// Throws the errors of the options; constructors call it.
  void check_options(std::size_t group, double lr);
  void update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) final;

 private:
  Tensor make_state(std::size_t group, std::size_t index, std::size_t entry) final;
  std::map<std::string, double> options(std::size_t group) const final;
  void set_options(std::size_t group, const std::map<std::string, double>& values) final;
  std::vector<NamedOption> named_of(std::size_t group) const;
  std::optional<NamedOption> momentum_option(std::size_t group) const;

  const char* type_;
  bool counts_steps_;
};

/// Adds the typed options. Options has a member `std::vector<NamedOption> named()`, which lists all
/// options except lr.
template <class Options>
class Composed : public ComposedOptimizer {
 public:
  using Groups = std::vector<ParamGroup<Options>>;

  /// Adds parameters to train, for example of layers that were frozen so far. Call it before
  /// schedules, ZeroSharding and captured steps are made. If it throws, nothing has changed: Error
  /// for a parameter that is already trained and for invalid options.
  void add_param_group(ParamGroup<Options> group) {
    options_.push_back(group.options);
    try {
      check_options(options_.size() - 1, group.options.lr);
      check_parameters_of(group.params);
      add_group(std::move(group.params), group.options.lr);
    } catch (...) {
      options_.pop_back();
      throw;
    }
  }

 protected:
  Composed(const char* type, const Groups& groups, std::vector<StateEntry> entries,
           Updates updates = Updates::elements)
      : ComposedOptimizer(type, detail::params_of(groups), detail::lrs_of(groups),
                          std::move(entries), updates) {
    for (const auto& group : groups) options_.push_back(group.options);
    for (std::size_t g = 0; g < groups.size(); ++g) check_options(g, groups[g].options.lr);
  }

  using ComposedOptimizer::update;
  /// Updates x.p and its state in place.
  virtual void update(const Options& o, const Parameter& x) = 0;
  const Options& options_of(std::size_t group) const { return options_.at(group); }
  /// Throws the errors of parameters that the optimizer cannot train. A class that overrides it
  /// also calls it in its constructor.
  virtual void check_parameters_of(const Tensors& /*params*/) const {}

 private:
  std::vector<NamedOption> named(std::size_t group) final { return options_.at(group).named(); }
  void update_parameter(std::size_t group, Parameter& x) final {
    const Options& o = options_[group];
    if constexpr (requires { o.maximize; }) {
      if (o.maximize) x.g = x.g.neg();
    }
    update(o, x);
  }

  std::vector<Options> options_;
};

}  // namespace rondo::optim
