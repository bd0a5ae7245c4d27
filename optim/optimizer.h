#pragma once
// Optimizer: what all of them share: parameter groups, the walk over parameters that have a
// gradient, learning rates, and the state that a checkpoint keeps. The formulas are in sgd.h and
// adam.h, the arithmetic in Backend::sgd_step and Backend::adam_step.
//
// Note [Rates live on the device]
// What schedules change (the learning rate and the momentum of a group) and the step count of a
// parameter are f64 tensors beside the parameters. A captured CUDA graph holds addresses, not
// numbers, so a schedule that writes the next rate there is obeyed without capturing again. The
// host keeps its own copy of the rates: to read them costs nothing and waits for nothing.
//
// Read next: sgd.h, lr_schedule.h, clip.h.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nn/module.h"
#include "tensor/tensor.h"

namespace rondo::optim {

/// Parameters that are trained with the same options.
template <class Options>
struct ParamGroup {
  Tensors params;
  Options options = {};
};

/// What an optimizer must remember from one run to the next, in PyTorch's arrangement: parameters
/// are numbered through all groups in order, and the state of number 3 is "3.momentum_buffer" and
/// so on. Flags among the options are 0 or 1.
struct OptimizerState {
  struct Group {
    std::map<std::string, double> options;
    std::vector<std::int64_t> params;
    bool operator==(const Group&) const = default;
  };
  std::string type;  // "SGD"
  std::vector<Group> groups;
  nn::StateDict tensors;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;  // schedules hold its address
  Optimizer& operator=(const Optimizer&) = delete;

  /// "SGD", "Adam", "AdamW".
  virtual const char* type() const = 0;

  /// Updates every parameter whose gradient is defined; the others and their state stay as they
  /// are. Nothing changes where `found_inf` (0-dim, f32, on the parameters' device; a GradScaler's)
  /// is given and is not 0. Throws Error where a parameter without a gradient is held by this
  /// optimizer alone, since the model's tensor was replaced after it was made; ShapeError or
  /// DTypeError naming the parameter whose gradient does not fit it, and DeviceError when the
  /// parameters of one group lie on several devices.
  void step(const Tensor& found_inf = {});
  /// Marks all gradients undefined (Note [Gradients live in buckets] in autograd/variable.h).
  void zero_grad();

  std::size_t num_groups() const { return groups_.size(); }
  const Tensors& params(std::size_t group = 0) const { return at(group).params; }
  /// All parameters, group after group.
  Tensors parameters() const;
  /// Puts in each parameter's place what `pieces_of` has for it, in its group and with its options:
  /// perhaps nothing, or several tensors of other shapes (dist::ZeroSharding). Throws Error when
  /// there is state already, which would fit the old ones.
  void replace_parameters(const std::function<Tensors(const Tensor&)>& pieces_of);

  double lr(std::size_t group = 0) const { return at(group).lr; }
  /// Sets the rate of every group, or of one. Throws Error where it is not finite.
  void set_lr(double lr);
  void set_lr(std::size_t group, double lr);
  /// What kernels read: the learning rate and the momentum.
  Tensor rates(std::size_t group = 0);
  /// The rate that schedules start from: set by the first schedule on this optimizer.
  std::optional<double> initial_lr(std::size_t group = 0) const { return at(group).initial_lr; }
  void set_initial_lr(std::size_t group, double lr);
  /// SGD's momentum or Adam's first beta: what OneCycleLR cycles.
  virtual double momentum(std::size_t group = 0) const = 0;
  virtual void set_momentum(std::size_t group, double momentum) = 0;

  /// The tensors share memory with this optimizer: clone what must not change.
  OptimizerState state_dict() const;
  /// Copies state in; options in `state` replace those given at construction. Throws Error naming
  /// what differs (type, number of groups or parameters, an unknown name) and ShapeError or
  /// DTypeError for a tensor that does not fit; nothing has been changed then.
  void load_state_dict(const OptimizerState& state);

 protected:
  /// `lrs` has one entry a group, `state_names` names the tensors kept for each parameter. Throws
  /// Error for no parameters, one given twice, or one that is no dense floating-point leaf.
  Optimizer(std::vector<Tensors> groups, const std::vector<double>& lrs,
            std::vector<std::string> state_names);

  /// One parameter's tensors, in the order of state_names; undefined until first used.
  using ParamState = std::vector<Tensor>;

  /// Called before the updates of a group, with its gradients (undefined where there is none).
  virtual void begin_group(std::size_t /*group*/, const Tensors& /*grads*/,
                           const Tensor& /*found_inf*/) {}
  /// A parameter that has a gradient, which has p's layout and dtype. State that there was before
  /// has p's device and layout, but for step counts.
  struct Update {
    std::size_t index;  // in its group
    Tensor p, g;
    ParamState& state;
  };
  /// Updates the parameters of `group`.
  virtual void update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) = 0;
  /// After a rate or a momentum has changed.
  void write_rates(std::size_t group);
  /// Memory for one entry of a parameter's state, before it is read or loaded.
  virtual Tensor make_state(std::size_t group, std::size_t index, std::size_t entry);
  /// Called before a state is loaded: whatever is kept besides the ParamStates starts anew.
  virtual void forget() {}
  /// The group's options but for lr, by PyTorch's names.
  virtual std::map<std::string, double> options(std::size_t group) const = 0;
  /// Takes what `options` gave; throws Error for a value out of range, before any change.
  virtual void set_options(std::size_t group, const std::map<std::string, double>& values) = 0;

 private:
  struct Group {
    Tensors params;
    std::vector<ParamState> state;
    double lr;
    std::optional<double> initial_lr;
    Tensor rates;
  };

  /// What step throws, before anything has changed.
  void check_parameters(std::size_t group) const;
  const Group& at(std::size_t group) const;
  Group& at(std::size_t group);
  /// Whether an entry of the states counts steps; the others lie as their parameter does.
  bool is_step(std::size_t entry) const { return state_names_[entry] == "step"; }
  void check_tensors(const OptimizerState& state) const;
  /// All groups' options, or, if one is refused, none.
  void set_all_options(const OptimizerState& state);
  /// Group, index and entry of "3.momentum_buffer".
  std::array<std::size_t, 3> locate(std::string_view name) const;

  std::vector<Group> groups_;
  std::vector<std::string> state_names_;
};

namespace detail {
/// Takes the parameters (or the options) out of typed groups.
template <class Options>
std::vector<Tensors> params_of(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<Tensors> result;
  for (const auto& group : groups) result.push_back(group.params);
  return result;
}
template <class Options>
std::vector<double> lrs_of(const std::vector<ParamGroup<Options>>& groups) {
  std::vector<double> result;
  for (const auto& group : groups) result.push_back(group.options.lr);
  return result;
}
/// The value of `key`; throws Error naming the optimizer and the key when it is absent.
double option(const char* type, const std::map<std::string, double>& values, const char* key);
/// Throws Error "SGD: lr is -1, but must be finite and not negative" unless it is.
void require_nonnegative(const char* type, const char* key, double value);
}  // namespace detail

}  // namespace rondo::optim
