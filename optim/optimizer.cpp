#include "optim/optimizer.h"

#include <charconv>
#include <cmath>
#include <set>
#include <unordered_set>

#include "autograd/autograd_meta.h"
#include "nn/shown.h"
#include "tensor/backend.h"
#include "tensor/creation.h"
#include "tensor/record_function.h"

namespace rondo::optim {
namespace {

bool is_dense(const Tensor& x) {
  return x.is_contiguous() || (x.dim() == 4 && x.is_contiguous(MemoryFormat::channels_last));
}

bool same_layout(const Tensor& a, const Tensor& b) {
  return (a.is_contiguous() && b.is_contiguous()) ||
         (a.dim() == 4 && a.is_contiguous(MemoryFormat::channels_last) &&
          b.is_contiguous(MemoryFormat::channels_last));
}

/// g in p's memory layout, so that a kernel may treat both as flat arrays.
Tensor in_layout_of(const Tensor& p, const Tensor& g) {
  if (same_layout(p, g)) return g;
  Tensor copy = Tensor::empty_like(p);
  backend(p).copy(g, copy);
  return copy;
}

/// A state of p, on p's device and in p's layout: Module::to may have moved p since the last step.
Tensor beside(const Tensor& p, const Tensor& s) {
  if (s.device() == p.device() && same_layout(p, s)) return s;
  Tensor moved = Tensor::empty(
      p.shape(), {.dtype = s.dtype(), .device = p.device(), .format = p.suggested_format()});
  backend(p.device().is_cpu() ? s : p).copy(s, moved);
  return moved;
}

/// Whether p is a view of another tensor that still exists, such as one of ZeRO's pieces.
bool is_part(const Tensor& p) {
  return p.impl().is_constant_view && !p.impl().constant_base.expired();
}

void check_gradient(const char* type, std::size_t group, std::size_t index, const Tensor& p,
                    const Tensor& g) {
  require<ShapeError>(g.shape() == p.shape(), type, ": parameter ", index, " of group ", group,
                      " has shape ", p.shape(), ", its gradient ", g.shape());
  require<DTypeError>(g.dtype() == p.dtype(), type, ": parameter ", index, " of group ", group,
                      " is ", p.dtype(), ", its gradient ", g.dtype());
  require<DeviceError>(g.device() == p.device(), type, ": parameter ", index, " of group ", group,
                       " is on ", p.device(), ", its gradient on ", g.device());
}

}  // namespace

Optimizer::Optimizer(std::vector<Tensors> groups, const std::vector<double>& lrs,
                     std::vector<StateEntry> entries, Updates updates)
    : entries_(std::move(entries)), is_elementwise_(updates == Updates::elements) {
  std::unordered_set<const TensorImpl*> seen;
  for (std::size_t g = 0; g < groups.size(); ++g) check_group(groups[g], g, seen);
  require(!seen.empty(),
          "optimizer: no parameters to train; pass at least one (parameters() of a model are those "
          "that its visit names)");
  for (std::size_t g = 0; g < groups.size(); ++g) append(std::move(groups[g]), lrs[g]);
}

void Optimizer::add_group(Tensors params, double lr) {
  std::unordered_set<const TensorImpl*> seen;
  for (const Tensor& p : parameters()) seen.insert(&p.impl());
  check_group(params, groups_.size(), seen);
  append(std::move(params), lr);
}

void Optimizer::check_group(const Tensors& params, std::size_t g,
                            std::unordered_set<const TensorImpl*>& seen) const {
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    require(p.defined(), "optimizer: parameter ", i, " of group ", g, " is undefined");
    require<DTypeError>(is_floating(p.dtype()), "optimizer: parameter ", i, " of group ", g, " is ",
                        p.dtype(), "; only floating-point tensors are trained");
    require(p.is_leaf(), "optimizer: parameter ", i, " of group ", g, " of shape ", p.shape(),
            " is not a leaf: it was computed from other tensors");
    require<ShapeError>(is_dense(p), "optimizer: parameter ", i, " of group ", g, " of shape ",
                        p.shape(), " is not dense (strides ", p.strides(), ")");
    require(is_elementwise_ || !is_part(p), "optimizer: parameter ", i, " of group ", g,
            " of shape ", p.shape(),
            " is a part of another tensor (ZeRO splits parameters), but this optimizer does not "
            "work element by element and needs whole parameters; train without ZeRO, or with "
            "another optimizer such as AdamW");
    require(seen.insert(&p.impl()).second, "optimizer: parameter ", i, " of group ", g,
            " was given twice");
  }
}

void Optimizer::append(Tensors params, double lr) {
  for (const Tensor& p : params) autograd_meta(p).is_shown = true;
  const std::size_t n = params.size();
  groups_.push_back({.params = std::move(params),
                     .state = std::vector<ParamState>(n, ParamState(entries_.size())),
                     .lr = lr,
                     .initial_lr = {},
                     .rates = {}});
}

const Optimizer::Group& Optimizer::at(std::size_t group) const {
  require(group < groups_.size(), type(), ": group ", group,
          " does not exist; the number of groups is ", groups_.size());
  return groups_[group];
}
Optimizer::Group& Optimizer::at(std::size_t group) {
  return const_cast<Group&>(std::as_const(*this).at(group));
}

Tensor Optimizer::step(const std::function<Tensor()>& closure) {
  require(closure != nullptr, type(), ".step: the closure is empty");
  const EnableGradGuard recording;
  const Tensor loss = closure();
  step();
  return loss;
}

void Optimizer::step_unless(const Tensor& found_inf) {
  RecordFunction range;
  if (is_recording()) range.open(concat(type(), " step"), EventKind::optimizer);
  nn::detail::require_all_shown(type());
  require_valid_rates();
  const AllocationTag tag("optimizer states");
  for (std::size_t g = 0; g < groups_.size(); ++g) check_parameters(g);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    Tensors grads(group.params.size());
    for (std::size_t i = 0; i < grads.size(); ++i) {
      const Tensor& p = group.params[i];
      if (!p.grad().defined()) continue;
      grads[i] = in_layout_of(p, p.grad());
      for (std::size_t k = 0; k < entries_.size(); ++k) {
        Tensor& s = group.state[i][k];
        if (s.defined() && entries_[k].kind == StateEntry::like_parameter) s = beside(p, s);
      }
    }
    std::vector<Update> updates;
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (grads[i].defined()) updates.push_back({i, group.params[i], grads[i], group.state[i]});
    }
    if (!updates.empty()) update(g, updates, found_inf);
    for (const Update& u : updates) u.p.bump_version();
  }
}

void Optimizer::check_parameters(std::size_t g) const {
  const Tensors& params = groups_[g].params;
  for (std::size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    const Tensor grad = p.grad();
    if (!grad.defined()) {
      require(
          p.impl_ptr().use_count() > 1 || !p.requires_grad(), type(), ": parameter ", i,
          " of group ", g, ", of shape ", p.shape(),
          ", is held by this optimizer alone: the model is gone or has another tensor in its "
          "place. Write its elements under NoGradGuard (weight.copy_(values)), or construct the "
          "optimizer after the change; if the tensor is not needed, call requires_grad_(false) on "
          "it");
      continue;
    }
    check_gradient(type(), g, i, p, grad);
    require<DeviceError>(p.device() == params[0].device(), type(), ": parameter ", i, " of group ",
                         g, " is on ", p.device(), ", parameter 0 on ", params[0].device());
  }
}

void Optimizer::zero_grad() {
  for (const Group& group : groups_) {
    for (const Tensor& p : group.params) p.zero_grad();
  }
}

Tensors Optimizer::parameters() const {
  Tensors all;
  for (const Group& group : groups_) {
    all.insert(all.end(), group.params.begin(), group.params.end());
  }
  return all;
}

void Optimizer::replace_parameters(const std::function<Tensors(const Tensor&)>& pieces_of) {
  require(state_dict().tensors.empty(), type(),
          ".replace_parameters: the optimizer has stepped or loaded a state, which belongs to its "
          "current parameters");
  for (Group& group : groups_) {
    Tensors pieces;
    for (const Tensor& p : group.params) {
      for (const Tensor& piece : pieces_of(p)) pieces.push_back(piece);
    }
    group.state.assign(pieces.size(), ParamState(entries_.size()));
    group.params = std::move(pieces);
  }
  forget();
}

void Optimizer::set_lr(double lr) {
  for (std::size_t g = 0; g < groups_.size(); ++g) set_lr(g, lr);
}

void Optimizer::set_lr(std::size_t group, double lr) {
  detail::require_nonnegative(type(), "lr", lr);
  schedule_lr(group, lr);
}

void Optimizer::schedule_lr(std::size_t group, double lr) {
  require(std::isfinite(lr), type(), ": a schedule sets lr to ", lr, ", but it must be finite");
  at(group).lr = lr;
  write_rates(group);
}

void Optimizer::require_valid_rates() const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    // A schedule that ends at 0 may miss it by rounding.
    const double rounding = 1e-9 * groups_[g].initial_lr.value_or(0);
    require(groups_[g].lr >= -rounding, type(), ": lr of group ", g, " is ", groups_[g].lr,
            ", but must not be negative; a schedule has set it, so check its settings and how "
            "often it steps");
  }
}

Tensor Optimizer::rates(std::size_t group) {
  Group& g = at(group);
  Device device = g.params.empty() ? Device::cpu() : g.params[0].device();
  if (!g.rates.defined() || g.rates.device() != device) {
    g.rates = Tensor::empty({2}, {.dtype = f64, .device = device});
    write_rates(group);
  }
  return g.rates;
}

void Optimizer::write_rates(std::size_t group) {
  const Tensor& rates = at(group).rates;
  if (!rates.defined()) return;
  backend(rates).fill(rates.as_view({}, {}, 0), lr(group));
  backend(rates).fill(rates.as_view({}, {}, 1), momentum(group));
}

void Optimizer::set_initial_lr(std::size_t group, double lr) { at(group).initial_lr = lr; }

Dims Optimizer::shape_of(std::size_t group, std::size_t index, std::size_t entry) const {
  const Tensors& params = at(group).params;
  if (entries_[entry].kind == StateEntry::like_parameter) return params[index].shape();
  if (entries_[entry].kind == StateEntry::scalar) return {};
  std::int64_t numel = 0;
  for (const Tensor& p : params) numel += p.numel();
  return {numel};
}

Tensor Optimizer::make_state(std::size_t group, std::size_t index, std::size_t entry) {
  const Tensor& p = at(group).params[index];
  const auto kind = entries_[entry].kind;
  if (kind == StateEntry::like_parameter) return zeros_like(p);
  return zeros(shape_of(group, index, entry),
               {.dtype = kind == StateEntry::scalar ? f64 : p.dtype(), .device = p.device()});
}

OptimizerState Optimizer::state_dict() const {
  OptimizerState result{.type = type(), .groups = {}, .tensors = {}};
  std::int64_t number = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    OptimizerState::Group group{.options = options(g), .params = {}};
    group.options["lr"] = groups_[g].lr;
    if (groups_[g].initial_lr) group.options["initial_lr"] = *groups_[g].initial_lr;
    for (const ParamState& state : groups_[g].state) {
      for (std::size_t k = 0; k < state.size(); ++k) {
        if (state[k].defined()) {
          result.tensors.push_back({concat(number, ".", entries_[k].name), state[k]});
        }
      }
      group.params.push_back(number++);
    }
    result.groups.push_back(std::move(group));
  }
  return result;
}

std::array<std::size_t, 3> Optimizer::locate(std::string_view name) const {
  std::size_t number = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  auto dot = static_cast<std::size_t>(end - name.data());
  require(error == std::errc{} && dot < name.size() && name[dot] == '.', type(),
          ".load_state_dict: \"", name, "\" is not NUMBER.NAME");
  std::size_t entry = 0;
  while (entry < entries_.size() && entries_[entry].name != name.substr(dot + 1)) ++entry;
  require(entry < entries_.size(), type(), ".load_state_dict: \"", name,
          "\" is not a state of this optimizer");
  std::size_t index = number;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (index < groups_[g].params.size()) return {g, index, entry};
    index -= groups_[g].params.size();
  }
  throw Error(concat(type(), ".load_state_dict: \"", name, "\" is of parameter ", number,
                     ", of which there are only ", number - index));
}

void Optimizer::check_tensors(const OptimizerState& state) const {
  std::set<std::string> names;
  for (const auto& [name, tensor] : state.tensors) {
    require(names.insert(name).second, type(), ".load_state_dict: \"", name, "\" appears twice");
    locate(name);
  }
  for (const auto& [name, tensor] : state.tensors) {
    auto [g, index, entry] = locate(name);
    for (std::size_t k = 0; k < entries_.size(); ++k) {  // e.g. moments without a step count
      // Vectors of a whole group appear one after the other.
      if (entries_[k].is_optional || (k > entry && entries_[k].kind != StateEntry::like_parameter))
        continue;
      std::string needed = name.substr(0, name.find('.') + 1) + entries_[k].name;
      require(names.contains(needed), type(), ".load_state_dict: there is \"", name,
              "\", but no \"", needed, "\"");
    }
    require(tensor.defined(), type(), ".load_state_dict: \"", name, "\" is undefined");
    const Dims shape = shape_of(g, index, entry);
    require<ShapeError>(tensor.shape() == shape, type(), ".load_state_dict: \"", name,
                        "\" has shape ", tensor.shape(), ", but ", shape, " is expected");
    require<DTypeError>(is_floating(tensor.dtype()), type(), ".load_state_dict: \"", name, "\" is ",
                        tensor.dtype(), ", not floating-point");
  }
}

void Optimizer::set_all_options(const OptimizerState& state) {
  std::vector<std::map<std::string, double>> before;
  for (std::size_t g = 0; g < groups_.size(); ++g) before.push_back(options(g));
  try {
    for (std::size_t g = 0; g < groups_.size(); ++g) set_options(g, state.groups[g].options);
  } catch (...) {  // a later group was rejected: earlier groups must be restored
    for (std::size_t g = 0; g < groups_.size(); ++g) set_options(g, before[g]);
    throw;
  }
}

void Optimizer::load_state_dict(const OptimizerState& state) {
  require(state.type == type(), type(), ".load_state_dict: the state is that of ", state.type);
  require(state.groups.size() == groups_.size(), type(), ".load_state_dict: the state has ",
          state.groups.size(), " parameter groups, the optimizer ", groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    require(state.groups[g].params.size() == groups_[g].params.size(), type(),
            ".load_state_dict: group ", g, " of the state has ", state.groups[g].params.size(),
            " parameters, that of the optimizer ", groups_[g].params.size());
    // May be negative: see schedule_lr.
    double lr = detail::option(type(), state.groups[g].options, "lr");
    require(std::isfinite(lr), type(), ".load_state_dict: lr of group ", g, " is ", lr);
  }
  check_tensors(state);
  set_all_options(state);
  forget();
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto& values = state.groups[g].options;
    schedule_lr(g, values.at("lr"));
    auto initial = values.find("initial_lr");
    groups_[g].initial_lr = initial == values.end() ? std::nullopt : std::optional(initial->second);
    for (ParamState& s : groups_[g].state) s.assign(entries_.size(), Tensor());
  }
  for (const auto& [name, tensor] : state.tensors) {
    auto [g, index, entry] = locate(name);
    Tensor& value = groups_[g].state[index][entry];
    value = make_state(g, index, entry);
    backend(value).copy(tensor.device() == value.device() ? tensor : tensor.to(value.device()),
                        value);
  }
}

namespace detail {

double option(const char* type, const std::map<std::string, double>& values, const char* key) {
  auto it = values.find(key);
  require(it != values.end(), type, ".load_state_dict: the state has no option ", key);
  return it->second;
}

void require_nonnegative(const char* type, const char* key, double value) {
  require(std::isfinite(value) && value >= 0, type, ": ", key, " is ", value,
          ", but must be finite and not negative");
}

}  // namespace detail
}  // namespace rondo::optim
