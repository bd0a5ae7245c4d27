#include "extras/torch_files/torch_training.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "extras/torch_files/file_value.h"
#include "extras/torch_files/pickle.h"
#include "extras/torch_files/torch_object.h"
#include "extras/torch_files/torch_pickle.h"
#include "extras/torch_files/torch_values.h"
#include "extras/torch_files/torch_writer.h"
#include "io/mapped_file.h"
#include "tensor/creation.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

using detail::FileValue;
using detail::TorchWriter;

// ---- Names and types, which differ between rondo's states and PyTorch's.

constexpr std::array<std::pair<std::string_view, std::string_view>, 6> renamed = {
    {{"last_step", "last_epoch"},
     {"t_max", "T_max"},
     {"t_0", "T_0"},
     {"t_mult", "T_mult"},
     {"t_cur", "T_cur"},
     {"t_i", "T_i"}}};

std::string torch_name(const std::string& name) {
  const auto* const found = std::ranges::find(renamed, name, &decltype(renamed)::value_type::first);
  return found != renamed.end() ? std::string(found->second) : name;
}

bool is_flag(std::string_view name) {
  static const std::set<std::string_view> flags = {"nesterov", "maximize", "amsgrad", "centered",
                                                   "decoupled_weight_decay"};
  return flags.contains(name);
}

bool is_count(std::string_view name) {
  static const std::set<std::string_view> counts = {"last_step", "step_size", "total_iters",
                                                    "t_max",     "t_0",       "t_mult"};
  return counts.contains(name);
}

bool is_written_field_by_field(std::string_view schedule) {
  static const std::set<std::string_view> types = {
      "StepLR",          "MultiStepLR",       "ExponentialLR",
      "ConstantLR",      "PolynomialLR",      "LinearLR",
      "LambdaLR",        "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
      "MultiplicativeLR"};
  return types.contains(schedule);
}

/// OneCycleLR's rates and momenta of a group, which PyTorch keeps in the optimizer's groups.
std::map<std::string, double> one_cycle_options(const optim::ScheduleState& state,
                                                std::size_t group) {
  const auto of_group = [&](const char* key) {
    const std::vector<double>& all = state.values.at(key);
    return all[all.size() == 1 ? 0 : group];
  };
  std::map<std::string, double> options = {
      {"max_lr", of_group("max_lr")},
      {"min_lr", state.values.at("base_lrs")[group] / state.values.at("final_div_factor")[0]}};
  if (state.values.at("cycle_momentum")[0] != 0) {
    options["base_momentum"] = of_group("base_momentum");
    options["max_momentum"] = of_group("max_momentum");
  }
  return options;
}

/// What PyTorch keeps of these is not numbers and tensors of each parameter.
void require_kept_alike(const char* called, const std::string& type) {
  require(type != "LBFGS" && type != "Muon", called, ": ", type,
          " has no state with the same fields in PyTorch; io::save_checkpoint keeps it");
}

// ---- Writing

void write_optimizer(TorchWriter& out, const optim::OptimizerState& state,
                     const std::optional<optim::ScheduleState>& one_cycle) {
  require_kept_alike("save_torch_training", state.type);
  out.begin_dict();
  out.text("state");
  out.begin_dict();
  for (std::size_t i = 0; i < state.tensors.size();) {  // those of one parameter follow each other
    const std::string number = state.tensors[i].name.substr(0, state.tensors[i].name.find('.'));
    out.integer(std::stoll(number));
    out.begin_dict();
    for (; i < state.tensors.size() && state.tensors[i].name.starts_with(number + "."); ++i) {
      const auto& [name, tensor] = state.tensors[i];
      const std::string entry = name.substr(number.size() + 1);
      out.text(entry);
      out.tensor(name, entry == "step" ? tensor.to(f32) : tensor);
    }
    out.end_dict();
  }
  out.end_dict();
  out.text("param_groups");
  out.begin_list();
  for (std::size_t g = 0; g < state.groups.size(); ++g) {
    std::map<std::string, double> options = state.groups[g].options;
    if (one_cycle) options.merge(one_cycle_options(*one_cycle, g));
    if (state.type.starts_with("Adam") && options.contains("amsgrad"))
      options["decoupled_weight_decay"] = state.type == "AdamW" ? 1 : 0;
    out.begin_dict();
    if (options.contains("beta1")) {
      out.text("betas");
      out.pair(options.at("beta1"), options.at("beta2"));
    }
    for (const auto& [name, value] : options) {
      if (name == "beta1" || name == "beta2") continue;
      out.text(name);
      if (is_flag(name)) {
        out.truth(value != 0);
      } else {
        out.number(value);
      }
    }
    out.text("params");
    out.begin_list();
    for (const std::int64_t number : state.groups[g].params) out.integer(number);
    out.end_list();
    out.end_dict();
  }
  out.end_list();
  out.end_dict();
}

void write_list(TorchWriter& out, const std::vector<double>& values) {
  out.begin_list();
  for (const double value : values) out.number(value);
  out.end_list();
}

void write_one_cycle(TorchWriter& out, const optim::ScheduleState& state, bool has_betas) {
  const auto value = [&](const char* key) { return state.values.at(key)[0]; };
  const double total = value("total_steps"), share = value("pct_start");
  struct Phase {
    double end;
    std::array<const char*, 4> names;  // of the rates and the momenta
  };
  std::vector<Phase> phases = {
      {share * total - 1, {"initial_lr", "max_lr", "max_momentum", "base_momentum"}}};
  if (value("three_phase") != 0) {
    phases.push_back(
        {2 * share * total - 2, {"max_lr", "initial_lr", "base_momentum", "max_momentum"}});
    phases.push_back({total - 1, {"initial_lr", "min_lr", "max_momentum", "max_momentum"}});
  } else {
    phases.push_back({total - 1, {"max_lr", "min_lr", "base_momentum", "max_momentum"}});
  }
  out.text("total_steps");
  out.integer(static_cast<std::int64_t>(total));
  out.text("_schedule_phases");
  out.begin_list();
  for (const Phase& phase : phases) {
    out.begin_dict();
    out.text("end_step");
    out.number(phase.end);
    constexpr const char* keys[] = {"start_lr", "end_lr", "start_momentum", "end_momentum"};
    for (std::size_t i = 0; i < 4; ++i) {
      out.text(keys[i]);
      out.text(phase.names[i]);
    }
    out.end_dict();
  }
  out.end_list();
  out.text("_anneal_func_type");
  out.text(value("linear") != 0 ? "linear" : "cos");
  out.text("cycle_momentum");
  out.truth(value("cycle_momentum") != 0);
  out.text("use_beta1");
  out.truth(has_betas);
}

void write_schedule(TorchWriter& out, const optim::LRSchedule& schedule) {
  const optim::ScheduleState state = schedule.state_dict();
  const optim::Optimizer& optimizer = schedule.optimizer();
  const bool one_cycle = state.type == "OneCycleLR";
  require(one_cycle || is_written_field_by_field(state.type), "save_torch_training: a ", state.type,
          " has no state with the same fields in PyTorch");
  out.begin_dict();
  if (one_cycle) {
    const auto groups = optimizer.state_dict().groups;
    write_one_cycle(out, state, !groups.empty() && groups[0].options.contains("beta1"));
  }
  for (const auto& [name, values] : state.values) {
    if (one_cycle && name != "last_step" && name != "base_lrs") continue;
    out.text(torch_name(name));
    if (name == "base_lrs") {
      write_list(out, values);
    } else if (name == "milestones") {
      out.counter({values.begin(), values.end()});
    } else if (is_count(name)) {
      out.integer(static_cast<std::int64_t>(values.at(0)));
    } else {
      out.number(values.at(0));
    }
  }
  out.text("_step_count");
  out.integer(schedule.last_step() + 1);
  out.text("_is_initial");
  out.truth(false);
  out.text("_get_lr_called_within_step");
  out.truth(false);
  out.text("_last_lr");
  std::vector<double> rates;
  for (std::size_t g = 0; g < optimizer.num_groups(); ++g) rates.push_back(optimizer.lr(g));
  write_list(out, rates);
  if (state.type == "LambdaLR" || state.type == "MultiplicativeLR") {
    out.text("lr_lambdas");  // PyTorch stores no functions, either
    out.begin_list();
    for (std::size_t g = 0; g < optimizer.num_groups(); ++g) out.none();
    out.end_list();
  }
  out.end_dict();
}

// ---- Reading

/// A Counter's numbers, or those of a list.
std::vector<double> milestones_in(const FileValue& node) {
  const PickleValue* value = node.value;
  const auto* call = value->as<PickleCall>();
  if (call != nullptr && call->name() == "collections.Counter" &&
      call->arguments->items.size() == 1)
    value = call->arguments->items[0];
  const auto* counts = value->as<PickleDict>();
  if (counts == nullptr) return node.numbers();
  std::vector<double> all;
  for (const auto& [key, count] : counts->items) {
    const auto milestone = FileValue{node.file, node.name, key}.require_number();
    const auto times = FileValue{node.file, node.name, count}.require_number();
    require<IoError>(times >= 0 && times <= 1000, node.file, ": ", node.name, " has ", milestone,
                     " ", times, " times");
    all.insert(all.end(), static_cast<std::size_t>(times), milestone);
  }
  std::ranges::sort(all);
  return all;
}

optim::OptimizerState read_optimizer(const FileValue& root, std::span<const std::byte> bytes,
                                     const optim::Optimizer& optimizer) {
  optim::OptimizerState state = optimizer.state_dict();
  require_kept_alike("load_torch_training", state.type);
  const std::vector<FileValue> groups = root.at("param_groups").items();
  require<IoError>(groups.size() == state.groups.size(), root.file, ": ", root.name, " has ",
                   groups.size(), " parameter groups, but the optimizer has ", state.groups.size());
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto& [options, params] = state.groups[g];
    for (auto& [name, value] : options) {
      if (name == "initial_lr") continue;
      const bool is_beta = name == "beta1" || name == "beta2";
      if (is_flag(name) && !groups[g].find(name)) {  // from before PyTorch had the flag
        value = 0;
        continue;
      }
      const FileValue node = groups[g].at(is_beta ? "betas" : name);
      if (is_beta) {
        const std::vector<double> betas = node.numbers();
        require<IoError>(betas.size() == 2, root.file, ": ", node.name, " has ", betas.size(),
                         " numbers, not two");
        value = betas[name == "beta1" ? 0 : 1];
      } else {
        value = node.require_number();
      }
    }
    options.erase("initial_lr");
    if (const auto initial = groups[g].find("initial_lr"))
      options["initial_lr"] = initial->require_number();
    if (const auto decoupled = groups[g].find("decoupled_weight_decay");
        decoupled && state.type.starts_with("Adam")) {
      require<IoError>((decoupled->require_number() != 0) == (state.type == "AdamW"), root.file,
                       ": ", root.name, " is not the state of ", state.type,
                       ": its decoupled_weight_decay differs");
    }
    params.clear();
    for (const FileValue& number : groups[g].at("params").items())
      params.push_back(number.as<std::int64_t>("whole number"));
  }
  state.tensors.clear();
  const FileValue parameters = root.at("state");
  bool has_tensors = false;
  for (const auto& [number, entries] : parameters.as<PickleDict>("dict").items) {
    const FileValue of_one{root.file, concat(parameters.name, '.', detail::key_text(number)),
                           entries};
    for (const auto& [key, value] : of_one.as<PickleDict>("dict").items) {
      has_tensors |= detail::is_tensor(value);
      // Old versions of PyTorch count steps in a number.
      if (const auto own = FileValue{root.file, of_one.name, value}.number())
        state.tensors.push_back(
            {concat(detail::key_text(number), '.', detail::key_text(key)), scalar(*own).to(f64)});
    }
  }
  if (!has_tensors) return state;
  TorchFile file = parse_torch(bytes, root.file, {.entry = root.name + ".state"});
  require<IoError>(file.left_out.empty(), root.file, ": ",
                   file.left_out.empty() ? "" : file.left_out[0].name,
                   " cannot be read: ", file.left_out.empty() ? "" : file.left_out[0].why);
  std::ranges::move(file.tensors, std::back_inserter(state.tensors));
  return state;
}

/// OneCycleLR's settings from the phases, and the rates from the optimizer's groups.
void read_one_cycle(const FileValue& root, const FileValue& groups, optim::ScheduleState& state) {
  auto& values = state.values;
  const double total = root.at("total_steps").require_number();
  const std::vector<FileValue> phases = root.at("_schedule_phases").items();
  require<IoError>(phases.size() == 2 || phases.size() == 3, root.file, ": ", root.name, " has ",
                   phases.size(), " phases, but OneCycleLR has two or three");
  const bool cycles = root.at("cycle_momentum").require_number() != 0;
  values["total_steps"] = {total};
  values["pct_start"] = {(phases[0].at("end_step").require_number() + 1) / total};
  values["three_phase"] = {phases.size() == 3 ? 1.0 : 0.0};
  values["linear"] = {root.at("_anneal_func_type").as<std::string>("text") == "linear" ? 1.0 : 0.0};
  values["cycle_momentum"] = {cycles ? 1.0 : 0.0};
  for (const char* list : {"max_lr", "base_momentum", "max_momentum"}) {
    if (!cycles && std::string_view(list) != "max_lr") continue;
    values[list].clear();
    for (const FileValue& group : groups.items())
      values[list].push_back(group.at(list).require_number());
  }
  require<IoError>(!groups.items().empty(), root.file, ": ", groups.name, " is empty");
  const FileValue first = groups.items()[0];
  const double initial = first.at("initial_lr").require_number();
  values["div_factor"] = {values["max_lr"][0] / initial};
  values["final_div_factor"] = {initial / first.at("min_lr").require_number()};
}

optim::ScheduleState read_schedule(const FileValue& root, const std::optional<FileValue>& optimizer,
                                   const optim::LRSchedule& schedule) {
  optim::ScheduleState state = schedule.state_dict();
  const bool one_cycle = state.type == "OneCycleLR";
  require(one_cycle || is_written_field_by_field(state.type), "load_torch_training: a ", state.type,
          " has no state with the same fields in PyTorch");
  if (one_cycle) {
    require<IoError>(optimizer.has_value(), root.file,
                     ": has no optimizer, which keeps the rates of OneCycleLR");
    read_one_cycle(root, optimizer->at("param_groups"), state);
  }
  for (auto& [name, values] : state.values) {
    if (one_cycle && name != "last_step" && name != "base_lrs") continue;
    const FileValue node = root.at(torch_name(name));
    if (name == "milestones") {
      values = milestones_in(node);
    } else if (name == "base_lrs") {
      values = node.numbers();
    } else {
      values = {node.require_number()};
    }
  }
  return state;
}

std::optional<FileValue> find_one(const FileValue& root, std::initializer_list<const char*> keys) {
  for (const char* key : keys)
    if (auto found = root.find(key)) return FileValue{root.file, key, found->value};
  return std::nullopt;
}

}  // namespace

void save_torch_training(const std::string& path, const TorchTraining& training,
                         const Metadata& metadata) {
  for (const char* part : {"model", "optimizer", "scheduler"})
    require(!metadata.contains(part), "save_torch_training: the metadata have an entry ", part,
            ", which would replace that part of the file; give it another name");
  TorchWriter out(path);
  out.begin_dict();
  if (training.model != nullptr) {
    out.text("model");
    out.state_dict(training.model->state_dict());
  }
  if (training.optimizer != nullptr) {
    std::optional<optim::ScheduleState> one_cycle;
    if (training.schedule != nullptr && std::string_view(training.schedule->type()) == "OneCycleLR")
      one_cycle = training.schedule->state_dict();
    out.text("optimizer");
    write_optimizer(out, training.optimizer->state_dict(), one_cycle);
  }
  if (training.schedule != nullptr) {
    out.text("scheduler");
    write_schedule(out, *training.schedule);
  }
  for (const auto& [name, value] : metadata) {
    out.text(name);
    if (const auto* integer = std::get_if<std::int64_t>(&value)) {
      out.integer(*integer);
    } else if (const auto* real = std::get_if<double>(&value)) {
      out.number(*real);
    } else {
      out.text(std::get<std::string>(value));
    }
  }
  out.end_dict();
  out.finish();
}

Metadata load_torch_training(const std::string& path, const TorchTraining& training) {
  const MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  const Pickle pickle = detail::parse_torch_object(bytes, path);
  const FileValue root{path, "the file", pickle.root};
  Metadata metadata;
  for (const auto& [key, value] : root.as<PickleDict>("dict").items) {
    const std::string name = detail::key_text(key);
    if (const auto* integer = value->as<std::int64_t>()) metadata[name] = *integer;
    if (const auto* truth = value->as<bool>()) metadata[name] = std::int64_t{*truth};
    if (const auto* real = value->as<double>()) metadata[name] = *real;
    if (const auto* text = value->as<std::string>()) metadata[name] = *text;
  }
  const auto optimizer = find_one(root, {"optimizer", "optimizer_state_dict"});
  const auto schedule = find_one(
      root, {"scheduler", "lr_scheduler", "scheduler_state_dict", "lr_scheduler_state_dict"});
  require<IoError>(training.optimizer == nullptr || optimizer, path,
                   ": has neither an entry optimizer nor optimizer_state_dict");
  require<IoError>(training.schedule == nullptr || schedule, path,
                   ": has no schedule: no entry scheduler, lr_scheduler, scheduler_state_dict or "
                   "lr_scheduler_state_dict");
  std::optional<nn::StateDict> weights;
  if (training.model != nullptr) weights = parse_torch(bytes, path).tensors;
  std::optional<optim::OptimizerState> state;
  if (training.optimizer != nullptr) state = read_optimizer(*optimizer, bytes, *training.optimizer);
  std::optional<optim::ScheduleState> times;
  if (training.schedule != nullptr) times = read_schedule(*schedule, optimizer, *training.schedule);
  // Each of the three changes nothing if it throws; then those before it are as they were, too.
  nn::StateDict model_before;
  std::optional<optim::ScheduleState> schedule_before;
  if (weights) {
    for (const auto& [name, tensor] : training.model->state_dict())
      model_before.push_back({name, tensor.detach().clone()});
    training.model->load_state_dict(*weights);
  }
  try {
    if (times) {
      schedule_before = training.schedule->state_dict();
      training.schedule->load_state_dict(*times);
    }
    if (state) training.optimizer->load_state_dict(*state);
  } catch (...) {
    if (weights) training.model->load_state_dict(model_before);
    if (schedule_before) training.schedule->load_state_dict(*schedule_before);
    throw;
  }
  return metadata;
}

}  // namespace rondo::io
