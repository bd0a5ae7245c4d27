#pragma once
// Optimizer: the base of all optimizers: parameter groups, the loop over parameters that have a
// gradient, learning rates, and the state that a checkpoint keeps. SGD and Adam have kernels of
// their own (Backend::sgd_step and Backend::adam_step); the others are composed of tensor ops
// (composed.h).
//
// Note [Rates live on the device]
// The values that schedules change (the learning rate and the momentum of a group) and the step
// count of a parameter are f64 tensors on the device of the parameters. A captured CUDA graph holds
// addresses, not values, so when a schedule writes the next rate there, the graph uses it without a
// new capture. The host keeps its own copy of the rates, so reading them does not wait for the
// device.
//
// Read next: data/loader.h; about optimizers: sgd.h, composed.h, lr_schedule.h, clip.h.

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_set>
#include <vector>

#include "nn/module.h"
#include "tensor/tensor.h"

namespace rondo::optim {

/// The two betas of Adam and its relatives. As an array, {0.5} would leave the second one 0.
struct Betas : std::array<double, 2> {
  constexpr Betas(double beta1, double beta2) : array{beta1, beta2} {}
};

/// Parameters that are trained with the same options.
template <class Options>
struct ParamGroup {
  Tensors params;
  Options options = {};
};

/// The state that an optimizer needs to resume, in PyTorch's arrangement: parameters are numbered
/// through all groups in order, and the state of parameter 3 is "3.momentum_buffer" and so on.
/// Flags among the options are 0 or 1.
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

/// A tensor that an optimizer keeps for each parameter.
struct StateEntry {
  enum Kind : std::uint8_t {
    like_parameter,  // the parameter's shape, dtype and layout
    scalar,          // 0-dim f64, such as a step count
    all_elements,    // one vector for all parameters of the group, kept with its first
  };
  std::string name;
  Kind kind = like_parameter;
  bool is_optional = false;  // only some options need it
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;  // schedules hold its address
  Optimizer& operator=(const Optimizer&) = delete;

  /// "SGD", "Adam", "AdamW", …
  virtual const char* type() const = 0;
  /// Whether each element is updated independently of the others, so that the parameters may be
  /// split (dist::ZeroSharding). If not, the constructor throws Error for a parameter that is a
  /// view of another tensor.
  bool is_elementwise() const { return is_elementwise_; }

  /// Updates every parameter whose gradient is defined; other parameters and their state do not
  /// change. Throws Error if only this optimizer holds a parameter without a gradient: then the
  /// model's tensor was replaced after the optimizer was constructed. Throws ShapeError or
  /// DTypeError naming a parameter whose gradient does not match it, and DeviceError if the
  /// parameters of one group are on several devices. Throws Error if a schedule has made a rate
  /// negative.
  void step() { step_unless({}); }
  /// Calls closure(), which zeroes the gradients, computes a loss and its gradients, and returns
  /// the loss; then makes a step. Returns the loss. LBFGS calls it several times.
  virtual Tensor step(const std::function<Tensor()>& closure);
  /// step(), but nothing changes if `found_inf` (0-dim, f32, on the parameters' device; from a
  /// GradScaler) is defined and is not 0.
  void step_unless(const Tensor& found_inf);
  /// Throws Error if a rate is negative. For callers that replay a captured step.
  void require_valid_rates() const;
  /// Marks all gradients undefined (Note [Gradients live in buckets] in autograd/autograd_meta.h).
  void zero_grad();

  std::size_t num_groups() const { return groups_.size(); }
  const Tensors& params(std::size_t group = 0) const { return at(group).params; }
  /// All parameters, in the order of the groups.
  Tensors parameters() const;
  /// Replaces each parameter by the tensors that `pieces_of` returns for it, in the same group and
  /// with the same options: possibly none, or several tensors of other shapes (dist::ZeroSharding).
  /// Throws Error if the optimizer already has state, which would belong to the old parameters.
  void replace_parameters(const std::function<Tensors(const Tensor&)>& pieces_of);

  double lr(std::size_t group = 0) const { return at(group).lr; }
  /// Sets the rate of every group, or of one group. Throws Error if it is negative or not finite.
  void set_lr(double lr);
  void set_lr(std::size_t group, double lr);
  /// The tensor that kernels read: the learning rate and the momentum.
  Tensor rates(std::size_t group = 0);
  /// The rate from which schedules start. The first schedule on this optimizer sets it.
  std::optional<double> initial_lr(std::size_t group = 0) const { return at(group).initial_lr; }
  void set_initial_lr(std::size_t group, double lr);
  /// SGD's momentum or Adam's first beta. OneCycleLR and CyclicLR change it.
  virtual double momentum(std::size_t group = 0) const = 0;
  virtual void set_momentum(std::size_t group, double momentum) = 0;

  /// The tensors share memory with this optimizer: clone those that must not change.
  OptimizerState state_dict() const;
  /// Copies state in; options in `state` replace those given at construction. Throws Error naming
  /// what differs (type, number of groups or parameters, an unknown name) and ShapeError or
  /// DTypeError for a tensor that does not match. If it throws, nothing has changed.
  void load_state_dict(const OptimizerState& state);

 protected:
  enum class Updates : std::uint8_t { elements, whole_parameters };
  /// `lrs` has one entry for each group; `entries` are the tensors kept for each parameter.
  /// Throws Error without parameters, if one is given twice, or if one is not a dense
  /// floating-point leaf.
  Optimizer(std::vector<Tensors> groups, const std::vector<double>& lrs,
            std::vector<StateEntry> entries, Updates updates = Updates::elements);

  /// Appends a group. Throws the constructor's errors, and then nothing has changed.
  void add_group(Tensors params, double lr);

  /// One parameter's tensors, in the order of the entries; undefined until first used.
  using ParamState = std::vector<Tensor>;

  /// A parameter with its gradient, which has p's layout and dtype. State from earlier steps has
  /// p's device and layout, except scalars.
  struct Update {
    std::size_t index;  // in its group
    Tensor p, g;
    ParamState& state;
  };
  /// Updates the parameters of `group`.
  virtual void update(std::size_t group, std::vector<Update>& updates, const Tensor& found_inf) = 0;
  /// Must be called after a rate or a momentum has changed.
  void write_rates(std::size_t group);
  /// Memory for one entry of a parameter's state; called before the entry is first read or loaded.
  virtual Tensor make_state(std::size_t group, std::size_t index, std::size_t entry);
  ParamState& state_of(std::size_t group, std::size_t index) { return at(group).state.at(index); }
  /// Throws the errors of step, before anything has changed.
  void check_parameters(std::size_t group) const;
  /// Called before a state is loaded: resets everything that is kept outside the ParamStates.
  virtual void forget() {}
  /// The group's options except lr, by PyTorch's names.
  virtual std::map<std::string, double> options(std::size_t group) const = 0;
  /// Sets the values that `options` returned. Throws Error for a value out of range, before any
  /// change.
  virtual void set_options(std::size_t group, const std::map<std::string, double>& values) = 0;

 private:
  struct Group {
    Tensors params;
    std::vector<ParamState> state;
    double lr;
    std::optional<double> initial_lr;
    Tensor rates;
  };

  friend class LRSchedule;

  /// Throws the constructor's errors. `seen` has the parameters of other groups, and gets these.
  void check_group(const Tensors& params, std::size_t g,
                   std::unordered_set<const TensorImpl*>& seen) const;
  void append(Tensors params, double lr);

  /// set_lr for schedules, which may set a negative rate that no step uses: one step after its end,
  /// a linear OneCycleLR goes below zero. Throws Error if it is not finite.
  void schedule_lr(std::size_t group, double lr);
  const Group& at(std::size_t group) const;
  Group& at(std::size_t group);
  Dims shape_of(std::size_t group, std::size_t index, std::size_t entry) const;
  void check_tensors(const OptimizerState& state) const;
  /// Sets the options of all groups or, if one is rejected, of none.
  void set_all_options(const OptimizerState& state);
  /// The group, index and entry of "3.momentum_buffer".
  std::array<std::size_t, 3> locate(std::string_view name) const;

  std::vector<Group> groups_;
  std::vector<StateEntry> entries_;
  bool is_elementwise_;
};

namespace detail {
/// Extracts the parameters (or the learning rates) from typed groups.
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
/// The value of `key`. Throws Error naming the optimizer and the key if it is missing.
double option(const char* type, const std::map<std::string, double>& values, const char* key);
/// Throws Error "SGD: lr is -1, but must be finite and not negative" for a negative or non-finite
/// value.
void require_nonnegative(const char* type, const char* key, double value);
}  // namespace detail

}  // namespace rondo::optim

// For `auto [beta1, beta2] = options.betas`.
template <>
struct std::tuple_size<rondo::optim::Betas> : std::integral_constant<std::size_t, 2> {};
template <std::size_t i>
struct std::tuple_element<i, rondo::optim::Betas> {
  using type = double;
};
