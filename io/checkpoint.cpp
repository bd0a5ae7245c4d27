#include "io/checkpoint.h"

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "io/safetensors.h"

namespace rondo::io {
namespace {

using nlohmann::json;

constexpr const char* description_key = "rondo.checkpoint";
constexpr std::int64_t format_version = 1;
constexpr std::string_view model_prefix = "model.", optimizer_prefix = "optimizer.",
                           communication_prefix = "communication.", ema_prefix = "ema.";
constexpr int max_depth = 16;  // of nested schedules

// ---- To and from JSON
// --------------------------------------------------------------------------------

/// JSON has no infinities and no NaN, but a diverged run has them. They are stored as text.
json number_to_json(double x) {
  if (std::isfinite(x)) return x;
  return std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf";
}

/// For error messages. A value that is not a number is described by its type only: dump() recurses
/// for each bracket, and a file may have any number of brackets.
std::string text_of(const json& j) {
  return j.is_number() ? j.dump() : concat("its ", j.type_name());
}

// The fields that a file should have. Each is checked first, so that the JSON library does not
// throw its own error.

const json& field(const json& j, const char* key) {
  const auto found = j.find(key);  // not found if `j` is not an object
  require<IoError>(found != j.end(), "its description has no \"", key, "\"");
  return *found;
}
const json& object_in(const json& j, const char* key) {
  const json& value = field(j, key);
  require<IoError>(value.is_object(), "\"", key, "\" is not an object");
  return value;
}
const json& list_in(const json& j, const char* key) {
  const json& value = field(j, key);
  require<IoError>(value.is_array(), "\"", key, "\" is not a list");
  return value;
}
const std::string& text_from(const json& j) {
  require<IoError>(j.is_string(), text_of(j), " is not a text");
  return j.get_ref<const std::string&>();
}

double number_from_json(const json& j) {
  if (j.is_number()) return j.get<double>();
  constexpr double inf = std::numeric_limits<double>::infinity();
  const std::string& text = text_from(j);
  require<IoError>(text == "nan" || text == "inf" || text == "-inf", "\"", text,
                   "\" is not a number");
  return text == "nan" ? std::numeric_limits<double>::quiet_NaN() : text == "inf" ? inf : -inf;
}

/// Accepts integers only, not values that can be converted to one.
std::int64_t integer_from(const json& j) {
  bool fits = j.is_number_unsigned() ? j.get<std::uint64_t>() <=
                                           std::uint64_t(std::numeric_limits<std::int64_t>::max())
                                     : j.is_number_integer();
  require<IoError>(fits, text_of(j), " is not a 64-bit integer");
  return j.get<std::int64_t>();
}

std::uint64_t unsigned_from(const json& j) {
  require<IoError>(j.is_number_unsigned(), text_of(j), " is not an unsigned 64-bit integer");
  return j.get<std::uint64_t>();
}

/// Integers and texts are stored as they are. A double is {"f64": number}, so that 2.0 stays a
/// double.
json to_json(const Metadata& metadata) {
  json result = json::object();
  for (const auto& [key, value] : metadata) {
    json& entry = result[key];
    if (const auto* number = std::get_if<double>(&value)) {
      entry = {{"f64", number_to_json(*number)}};
    } else {
      std::visit([&](const auto& v) { entry = v; }, value);
    }
  }
  return result;
}

Metadata metadata_from(const json& j) {
  Metadata result;
  for (const auto& [key, value] : j.items()) {
    if (value.is_object()) {
      result[key] = number_from_json(field(value, "f64"));
    } else if (value.is_string()) {
      result[key] = value.get<std::string>();
    } else {
      result[key] = integer_from(value);
    }
  }
  return result;
}

json to_json(const optim::OptimizerState& state) {
  json groups = json::array();
  for (const auto& group : state.groups) {
    json options = json::object();
    for (const auto& [key, value] : group.options) options[key] = number_to_json(value);
    groups.push_back({{"options", options}, {"params", group.params}});
  }
  return {{"type", state.type}, {"groups", groups}};
}

optim::OptimizerState optimizer_from(const json& j) {
  optim::OptimizerState state{.type = text_from(field(j, "type")), .groups = {}, .tensors = {}};
  for (const json& group : list_in(j, "groups")) {
    auto& g = state.groups.emplace_back();
    for (const auto& [key, value] : object_in(group, "options").items()) {
      g.options[key] = number_from_json(value);
    }
    for (const json& number : list_in(group, "params")) g.params.push_back(integer_from(number));
  }
  return state;
}

json to_json(const optim::ScheduleState& state) {
  json values = json::object(), children = json::array();
  for (const auto& [key, list] : state.values) {
    values[key] = json::array();
    for (double value : list) values[key].push_back(number_to_json(value));
  }
  for (const auto& child : state.children) children.push_back(to_json(child));
  return {{"type", state.type}, {"values", values}, {"children", children}};
}

optim::ScheduleState schedule_from(const json& j, int depth = 0) {
  require<IoError>(depth < max_depth, "schedules are nested too deeply");
  optim::ScheduleState state{.type = text_from(field(j, "type")), .values = {}, .children = {}};
  for (const auto& [key, list] : object_in(j, "values").items()) {
    require<IoError>(list.is_array(), "\"", key, "\" is not a list");
    auto& values = state.values[key];
    for (const json& value : list) values.push_back(number_from_json(value));
  }
  for (const json& child : list_in(j, "children")) {
    state.children.push_back(schedule_from(child, depth + 1));
  }
  return state;
}

json describe(const Checkpoint& c) {
  json generators = json::object();
  for (const auto& [name, state] : c.generators) {
    generators[name] = {{"seed", state.seed}, {"next_stream", state.next_stream}};
  }
  json result = {{"version", format_version},   {"model", c.model},
                 {"config", to_json(c.config)}, {"epoch", c.position.epoch},
                 {"step", c.position.step},     {"global_step", c.position.global_step},
                 {"generators", generators},    {"world_size", c.world_size},
                 {"threads", c.threads},        {"metadata", to_json(c.metadata)}};
  if (c.optimizer) result["optimizer"] = to_json(*c.optimizer);
  if (c.schedule) result["schedule"] = to_json(*c.schedule);
  return result;
}

Checkpoint from_description(const json& j) {
  Checkpoint c;
  c.model = text_from(field(j, "model"));
  c.config = metadata_from(object_in(j, "config"));
  c.position = {.epoch = integer_from(field(j, "epoch")),
                .step = integer_from(field(j, "step")),
                .global_step = integer_from(field(j, "global_step"))};
  for (const auto& [name, state] : object_in(j, "generators").items()) {
    c.generators[name] = {.seed = unsigned_from(field(state, "seed")),
                          .next_stream = unsigned_from(field(state, "next_stream"))};
  }
  c.world_size = integer_from(field(j, "world_size"));
  c.threads = integer_from(field(j, "threads"));
  c.metadata = metadata_from(object_in(j, "metadata"));
  if (j.contains("optimizer")) c.optimizer = optimizer_from(field(j, "optimizer"));
  if (j.contains("schedule")) c.schedule = schedule_from(field(j, "schedule"));
  return c;
}

/// The description as JSON; nullopt if the file has none. Throws if its version is not supported.
std::optional<json> read_description(const std::map<std::string, std::string>& metadata,
                                     const std::string& path) {
  auto it = metadata.find(description_key);
  if (it == metadata.end()) return std::nullopt;
  json j = json::parse(it->second, nullptr, /*allow_exceptions=*/false);
  require<IoError>(
      j.is_object() && j.contains("version") && j["version"].is_number_integer(), path,
      " is not a valid checkpoint: its description is not a JSON object with a version");
  auto version = integer_from(j["version"]);
  require<IoError>(version >= 1 && version <= format_version, path,
                   " is a checkpoint of format version ", version,
                   "; this version of rondo reads up to ", format_version);
  return j;
}

void distribute(nn::StateDict&& tensors, Checkpoint& c, const std::string& path) {
  for (auto& [name, tensor] : tensors) {
    if (name.starts_with(model_prefix)) {
      c.model_state.push_back({name.substr(model_prefix.size()), tensor});
    } else if (name.starts_with(optimizer_prefix) && c.optimizer) {
      c.optimizer->tensors.push_back({name.substr(optimizer_prefix.size()), tensor});
    } else if (name.starts_with(communication_prefix)) {
      c.communication.push_back({name.substr(communication_prefix.size()), tensor});
    } else if (name.starts_with(ema_prefix)) {
      c.ema.push_back({name.substr(ema_prefix.size()), tensor});
    } else {
      throw IoError(concat(path, " is not a valid checkpoint: the tensor \"", name,
                           "\" belongs neither to the model nor to its optimizer"));
    }
  }
}

}  // namespace

void save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  nn::StateDict tensors;
  for (const auto& [name, tensor] : checkpoint.model_state) {
    tensors.push_back({std::string(model_prefix) + name, tensor});
  }
  if (checkpoint.optimizer) {
    for (const auto& [name, tensor] : checkpoint.optimizer->tensors) {
      tensors.push_back({std::string(optimizer_prefix) + name, tensor});
    }
  }
  for (const auto& [name, tensor] : checkpoint.communication)
    tensors.push_back({std::string(communication_prefix) + name, tensor});
  for (const auto& [name, tensor] : checkpoint.ema)
    tensors.push_back({std::string(ema_prefix) + name, tensor});
  std::string description;
  try {
    description = describe(checkpoint).dump();
  } catch (const json::exception&) {
    throw IoError(concat("cannot write ", path, ": a text in the checkpoint is not UTF-8"));
  }
  save_safetensors(path, tensors, {{description_key, description}});
}

Checkpoint load_checkpoint(const std::string& path, const std::string& model) {
  Safetensors file = load_safetensors(path);
  std::optional<json> description = read_description(file.metadata, path);
  require<IoError>(description.has_value(), path,
                   " is not a checkpoint: it is a safetensors file without rondo's description");
  require<IoError>(file.verified, path,
                   " is damaged, or another program has rewritten it: its checksum is not at the "
                   "start of the header");
  Checkpoint c;
  try {
    c = from_description(*description);
  } catch (const IoError& e) {
    throw IoError(concat(path, " is not a valid checkpoint: ", e.what()));
  }
  require<IoError>(model.empty() || c.model == model, path, " is a checkpoint of the model ",
                   c.model, ", not of ", model);
  distribute(std::move(file.tensors), c, path);
  return c;
}

std::optional<std::string> latest_checkpoint(const std::string& directory) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::optional<std::string> latest;
  std::pair<std::int64_t, fs::file_time_type> best;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().extension() != ".safetensors" || !entry.is_regular_file(error)) continue;
    std::string path = entry.path().string();
    auto description = read_description(load_safetensors_metadata(path), path);
    if (!description) continue;
    require<IoError>(description->contains("global_step"), path,
                     " is not a valid checkpoint: its description has no global_step");
    const json& step = description->at("global_step");
    require<IoError>(step.is_number_integer(), path,
                     " is not a valid checkpoint: its global_step is ", text_of(step));
    std::pair rank{integer_from(step), entry.last_write_time(error)};
    if (!latest || rank > best) {
      latest = path;
      best = rank;
    }
  }
  return latest;
}

}  // namespace rondo::io
