#include "io/torch_object.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "tensor/error.h"

namespace rondo::io::detail {
namespace {

struct StorageType {
  const char* name;
  std::uint64_t element;            // bytes
  std::optional<DType> dtype = {};  // none: rondo lacks it
};
const StorageType storage_types[] = {
    {"torch.DoubleStorage", 8, f64},    {"torch.FloatStorage", 4, f32},
    {"torch.BFloat16Storage", 2, bf16}, {"torch.HalfStorage", 2, f16},
    {"torch.LongStorage", 8, i64},      {"torch.IntStorage", 4, i32},
    {"torch.ByteStorage", 1, u8},       {"torch.CharStorage", 1, i8},
    {"torch.BoolStorage", 1, boolean},  {"torch.ShortStorage", 2},
    {"torch.ComplexFloatStorage", 8},   {"torch.ComplexDoubleStorage", 16}};
constexpr std::string_view rebuild_v2 = "torch._utils._rebuild_tensor_v2",
                           rebuild = "torch._utils._rebuild_tensor",
                           rebuild_parameter = "torch._utils._rebuild_parameter",
                           rebuild_parameter_with_state =
                               "torch._utils._rebuild_parameter_with_state";
/// Harmless, and in the files of ordinary training: a schedule's milestones are a Counter.
constexpr const char* others[] = {"collections.Counter", "collections.defaultdict",
                                  "_codecs.encode",      "torch.Size",
                                  "torch.device",        "builtins.set",
                                  "__builtin__.set",     "torch.float64",
                                  "torch.float32",       "torch.float16",
                                  "torch.bfloat16",      "torch.int64",
                                  "torch.int32",         "torch.int16",
                                  "torch.int8",          "torch.uint8",
                                  "torch.bool",          "torch.storage.UntypedStorage"};

const StorageType* find_type(const std::string& name) {
  const auto* found = std::ranges::find_if(
      storage_types, [&](const StorageType& type) { return type.name == name; });
  return found != std::end(storage_types) ? found : nullptr;
}

/// A persistent id: ("storage", type, key, device, elements, view or None).
struct StorageId {
  const StorageType* type = nullptr;
  std::string_view type_name, key;  // the pickle's
  const PickleValue *numel = nullptr, *view = nullptr;
};

std::optional<StorageId> read_storage_id(const PickleValue* value) {
  const auto* persistent = value->as<PicklePersistent>();
  const auto* id = persistent != nullptr ? persistent->id->as<PickleSequence>() : nullptr;
  if (id == nullptr || id->items.size() < 5) return {};
  const auto *kind = id->items[0]->as<std::string>(), *key = id->items[2]->as<std::string>();
  const auto* type = id->items[1]->as<PickleGlobal>();
  if (kind == nullptr || *kind != "storage" || key == nullptr || type == nullptr) return {};
  return StorageId{.type = find_type(type->name),
                   .type_name = type->name,
                   .key = *key,
                   .numel = id->items[4],
                   .view = id->items.size() > 5 ? id->items[5] : nullptr};
}

bool makes_parameter(const PickleCall& call) {
  return call.function->name == rebuild_parameter ||
         call.function->name == rebuild_parameter_with_state;
}
bool is_tensor(const PickleValue* value) {
  const auto* call = value->as<PickleCall>();
  return call != nullptr && (call->function->name == rebuild_v2 ||
                             call->function->name == rebuild || makes_parameter(*call));
}
// Of the metadata, which is for people.
constexpr std::size_t longest_text = 4096, most_texts = 1000;

/// Compressed, data may be as much as 1,032 times as long as it is in the file.
constexpr std::uint64_t most_gain = 1100;

}  // namespace

const std::set<std::string>& torch_globals() {
  static const auto* all = [] {
    auto* names = new std::set<std::string>{"collections.OrderedDict"};
    for (std::string_view name :
         {rebuild_v2, rebuild, rebuild_parameter, rebuild_parameter_with_state})
      names->emplace(name);
    for (const char* name : others) names->insert(name);
    for (const StorageType& type : storage_types) names->insert(type.name);
    return names;
  }();
  return *all;
}

void* WantedStorage::allocate() {
  memory = Tensor::empty({static_cast<std::int64_t>(bytes)}, {.dtype = u8}).storage();
  return memory->data();
}

template <class... Parts>
void TorchObject::check(bool condition, const Parts&... parts) const {
  require<IoError>(condition, file_, ": ", parts...);
}

TorchObject::TorchObject(const Pickle& pickle, const std::string& entry, const std::string& file,
                         std::size_t file_bytes)
    : pickle_(pickle), file_(file), file_bytes_(file_bytes) {
  const auto* outer = pickle.root->as<PickleDict>();
  check(outer != nullptr,
        "holds no dict of tensors; of a whole model that was saved, save its state_dict()");
  add_metadata(*outer);
  const PickleDict* dict = entry.empty()  ? choose(*outer)
                           : entry == "." ? outer
                                          : descend(*outer, entry);
  if (dict != outer) add_metadata(*dict);
  for (const auto& [key, value] : dict->items) {
    const auto* name = key->as<std::string>();
    if (name != nullptr && is_tensor(value)) add_tensor(*name, value);
  }
  check(!tensors_.empty(), entry.empty() ? "" : concat(entry_, " "), "holds no tensors");
}

/// Each dict is gone through once, however many names it has.
bool TorchObject::has_tensors(const PickleDict& dict) {
  const auto [found, is_new] = known_.emplace(&dict, false);
  if (is_new)
    found->second =
        std::ranges::any_of(dict.items, [](const auto& item) { return is_tensor(item.second); });
  return found->second;
}

/// Inner dicts first: beside them the outer one may have a tensor, the best accuracy so far.
const PickleDict* TorchObject::choose(const PickleDict& outer) {
  std::vector<std::pair<const std::string*, const PickleDict*>> candidates;
  for (const auto& [key, value] : outer.items) {
    const auto* name = key->as<std::string>();
    const auto* dict = value->as<PickleDict>();
    if (name != nullptr && dict != nullptr && has_tensors(*dict))
      candidates.emplace_back(name, dict);
  }
  for (const char* usual : {"state_dict", "model_state_dict", "model", "net", "weights"}) {
    for (const auto& [name, dict] : candidates) {
      if (*name != usual) continue;
      entry_ = usual;
      return dict;
    }
  }
  if (candidates.empty()) {
    check(has_tensors(outer), "holds no tensors");
    return &outer;
  }
  if (candidates.size() > 1 || has_tensors(outer)) {
    std::string names = has_tensors(outer) ? "the outer one" : "";
    for (std::size_t i = 0; i < std::min<std::size_t>(candidates.size(), 5); ++i)
      names += (names.empty() ? "" : ", ") + candidates[i].first->substr(0, 100);
    throw IoError(concat(file_, ": has several dicts of tensors, ", names,
                         candidates.size() > 5 ? ", …" : "", "; say which one is meant"));
  }
  entry_ = *candidates[0].first;
  return candidates[0].second;
}

/// Along keys with dots between them; a key may have dots of its own.
const PickleDict* TorchObject::descend(const PickleDict& from, const std::string& path) {
  entry_ = path;
  const PickleDict* dict = &from;
  for (std::string_view rest = path; !rest.empty();) {
    const PickleDict* next = nullptr;
    std::size_t length = 0;
    for (const auto& [key, value] : dict->items) {
      const auto* name = key->as<std::string>();
      const auto* inner = value->as<PickleDict>();
      if (name == nullptr || inner == nullptr || !rest.starts_with(*name)) continue;
      if (rest.size() > name->size() && rest[name->size()] != '.') continue;
      if (name->size() < length) continue;  // "model.ema" rather than "model"
      next = inner;
      length = name->size();
    }
    check(next != nullptr, "has no dict ", path);
    dict = next;
    rest.remove_prefix(std::min(rest.size(), length + 1));
  }
  return dict;
}

void TorchObject::add_metadata(const PickleDict& dict) {
  for (const auto& [key, value] : dict.items) {
    const auto* name = key->as<std::string>();
    if (name == nullptr || name->size() > longest_text || metadata_.size() >= most_texts) continue;
    const auto* text = value->as<std::string>();
    if (text != nullptr && text->size() <= longest_text) metadata_[*name] = *text;
    if (const auto* number = value->as<std::int64_t>()) metadata_[*name] = std::to_string(*number);
    if (const auto* number = value->as<double>()) metadata_[*name] = concat(*number);
    if (const auto* truth = value->as<bool>()) metadata_[*name] = *truth ? "True" : "False";
  }
}

std::int64_t TorchObject::integer(const PickleValue* value, const std::string& name) const {
  const auto* number = value->as<std::int64_t>();
  check(number != nullptr && *number >= 0, name, " has a size that is no number");
  return *number;
}
Dims TorchObject::dims(const PickleValue* value, const std::string& name) const {
  const auto* items = value->as<PickleSequence>();
  check(items != nullptr, name, " has no sizes");
  check(std::ssize(items->items) <= Dims::max_rank, name, " has ", items->items.size(),
        " dimensions, and tensors have at most ", Dims::max_rank);
  Dims all;
  for (const PickleValue* item : items->items) all.push_back(integer(item, name));
  return all;
}

void TorchObject::add_tensor(const std::string& name, const PickleValue* value) {
  const auto* call = value->as<PickleCall>();
  if (makes_parameter(*call)) {
    const auto& parts = call->arguments->items;
    check(!parts.empty() && is_tensor(parts[0]), name, " is no tensor");
    call = parts[0]->as<PickleCall>();
    check(!makes_parameter(*call), name, " is no tensor");
  }
  const auto& parts = call->arguments->items;
  check(parts.size() >= 4, name, " is no tensor");
  if (parts.size() > 6) {  // {"neg": True}: the numbers in the file have the other sign
    const auto* marks = parts[6]->as<PickleDict>();
    check(marks != nullptr && marks->items.empty(), name,
          " is marked as a lazy negation or conjugate, which is not read");
  }
  WantedTensor tensor{.name = name,
                      .storage = find_storage(name, parts[0]),
                      .offset = integer(parts[1], name),
                      .sizes = dims(parts[2], name),
                      .strides = dims(parts[3], name)};
  check_extent(tensor);
  const auto [found, is_new] = tensor_of_.emplace(name, tensors_.size());
  if (is_new) {
    tensors_.push_back(std::move(tensor));
  } else {
    tensors_[found->second] = std::move(tensor);  // as in a dict
  }
}

std::size_t TorchObject::find_storage(const std::string& name, const PickleValue* value) {
  const auto id = read_storage_id(value);
  check(id.has_value(), name, " has no storage");
  check(id->view == nullptr || id->view->as<PickleNone>() != nullptr, name,
        " is a view of a storage as PyTorch before 0.4 wrote them, which is not read");
  check(id->type != nullptr && id->type->dtype.has_value(), name, " is of ", id->type_name,
        ", a dtype that rondo lacks");
  const auto numel = static_cast<std::uint64_t>(integer(id->numel, name));
  check(numel <= file_bytes_ * most_gain / id->type->element, name, " would have ", numel,
        " elements, more than the file can hold");
  const std::uint64_t bytes = numel * id->type->element;
  const auto [found, is_new] = storage_of_.emplace(id->key, storages_.size());
  if (is_new) {
    wanted_bytes_ += bytes;
    check(wanted_bytes_ <= file_bytes_ * most_gain, "would have more bytes than the file can hold");
    storages_.push_back({.key = std::string(id->key), .dtype = *id->type->dtype, .bytes = bytes});
  } else {
    const WantedStorage& same = storages_[found->second];
    check(same.dtype == *id->type->dtype && same.bytes == bytes, name, " has another storage ",
          id->key, " than a tensor before it");
  }
  return found->second;
}

/// That no element lies beyond the storage, and that there are no more elements than it has.
/// Where there are none, or one along a dimension, strides say nothing: they become the usual.
void TorchObject::check_extent(WantedTensor& t) const {
  const WantedStorage& storage = storages_[t.storage];
  const std::uint64_t room = storage.bytes / static_cast<std::uint64_t>(size_of(storage.dtype));
  check(t.sizes.size() == t.strides.size(), t.name, " has ", t.sizes.size(), " sizes and ",
        t.strides.size(), " strides");
  if (std::ranges::find(t.sizes, 0) != t.sizes.end()) {
    std::uint64_t product = 1;
    for (std::int64_t size : t.sizes) {
      check(static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1)) <= (1ULL << 62) / product,
            t.name, " of sizes ", t.sizes, " is too large");
      product *= static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    }
    t.offset = 0;
    t.strides = strides_of(t.sizes, MemoryFormat::contiguous);
    return;
  }
  std::uint64_t numel = 1, last = static_cast<std::uint64_t>(t.offset);
  for (std::int64_t d = 0; d < t.sizes.size(); ++d) {
    const auto size = static_cast<std::uint64_t>(t.sizes[d]),
               stride = static_cast<std::uint64_t>(t.strides[d]);
    const bool fits = size <= room && numel <= room / size && last < room &&
                      (size == 1 || stride <= (room - 1 - last) / (size - 1));
    check(fits, t.name, " of sizes ", t.sizes, " and strides ", t.strides, " at ", t.offset,
          " does not fit into its storage of ", room,
          " elements, or is expanded or overlaps itself, which is not read");
    numel *= size;
    last += stride * (size - 1);
    if (size == 1) t.strides[d] = std::min(t.strides[d], static_cast<std::int64_t>(room));
  }
  check(last < room, t.name, " at ", t.offset, " does not fit into its storage of ", room,
        " elements");
}

std::unordered_map<std::string_view, std::uint64_t> TorchObject::element_bytes() const {
  std::unordered_map<std::string_view, std::uint64_t> all;
  for (const PickleValue& part : pickle_.parts) {
    const auto id = read_storage_id(&part);
    if (id && id->type != nullptr) all[id->key] = id->type->element;
  }
  return all;
}

TorchFile TorchObject::finish() {
  for (const WantedStorage& storage : storages_) {
    check(storage.memory != nullptr, "the storage ", storage.key, " is missing");
    if (storage.dtype != boolean) continue;
    const auto* bytes = static_cast<const unsigned char*>(storage.memory->data());
    check(std::all_of(bytes, bytes + storage.bytes, [](unsigned char b) { return b <= 1; }),
          "the storage ", storage.key, " of bool holds a byte that is neither 0 nor 1");
  }
  TorchFile result{.tensors = {}, .entry = std::move(entry_), .metadata = std::move(metadata_)};
  for (const WantedTensor& t : tensors_) {
    const WantedStorage& storage = storages_[t.storage];
    result.tensors.push_back(
        {t.name, Tensor::over(storage.memory, t.offset, t.sizes, t.strides, storage.dtype)});
  }
  return result;
}

}  // namespace rondo::io::detail
