#include "extras/torch_files/torch_values.h"

#include <algorithm>

namespace rondo::io::detail {
namespace {

template <class Match>
const StoredType* find_type(Match match) {
  const auto types = stored_types();
  const auto found = std::ranges::find_if(types, match);
  return found != types.end() ? &*found : nullptr;
}

/// A name without "torch.", to compare with those of stored types; other names are unchanged.
std::string_view bare(std::string_view name) {
  constexpr std::string_view module = "torch.";
  return name.starts_with(module) ? name.substr(module.size()) : name;
}

}  // namespace

const StoredType* type_of_dtype(std::string_view name) {
  return find_type([&](const StoredType& t) { return t.torch == bare(name); });
}

std::optional<StorageId> read_storage_id(const PickleValue* value) {
  const auto* persistent = value->as<PicklePersistent>();
  const auto* id = persistent != nullptr ? persistent->id->as<PickleSequence>() : nullptr;
  if (id == nullptr || id->items.size() < 5) return {};
  const auto *kind = id->items[0]->as<std::string>(), *key = id->items[2]->as<std::string>();
  const auto* type = id->items[1]->as<PickleGlobal>();
  if (kind == nullptr || *kind != "storage" || key == nullptr || type == nullptr) return {};
  const std::string_view name = bare(type->name);
  return StorageId{
      .type = find_type([&](const StoredType& t) { return !name.empty() && t.storage == name; }),
      .is_bytes = type->name == "torch.storage.UntypedStorage",
      .type_name = type->name,
      .key = *key,
      .numel = id->items[4],
      .view = id->items.size() > 5 ? id->items[5] : nullptr};
}

bool is_tensor(const PickleValue* value) {
  const auto* call = value->as<PickleCall>();
  if (call == nullptr) return false;
  const std::string_view name = call->name();
  return name.starts_with("torch._utils._rebuild_") || name == rebuild_subclass;
}

std::string key_text(const PickleValue* key) {
  if (const auto* text = key->as<std::string>()) return *text;
  const auto* number = key->as<std::int64_t>();
  return number != nullptr ? std::to_string(*number) : std::string();
}

bool has_key(const PickleDict& dict, std::string_view wanted) {
  return std::ranges::any_of(dict.items, [&](const auto& item) {
    const auto* name = item.first->template as<std::string>();
    return name != nullptr && *name == wanted;
  });
}

bool is_numpy_array(const PickleCall& object) {
  return class_of(object) == "numpy.ndarray" || object.name().ends_with("numeric._frombuffer");
}

std::string class_of(const PickleCall& object) {
  std::string_view name = object.name();
  if ((name.ends_with("_reconstructor") || name.ends_with("_reconstruct")) &&
      !object.arguments->items.empty())
    if (const auto* made = object.arguments->items[0]->as<PickleGlobal>()) name = made->name;
  return name.empty() ? "an object" : std::string(name.substr(0, 200));
}

bool is_module(const PickleValue* value) {
  const auto* object = value->as<PickleCall>();
  const auto* state =
      object != nullptr && object->state != nullptr ? object->state->as<PickleDict>() : nullptr;
  return state != nullptr && has_key(*state, "_parameters") && has_key(*state, "_modules");
}

}  // namespace rondo::io::detail
