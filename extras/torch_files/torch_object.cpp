#include "extras/torch_files/torch_object.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "extras/torch_files/torch_values.h"
#include "tensor/error.h"

namespace rondo::io::detail {
namespace {

/// Why one tensor cannot be read, although the file is valid.
struct Unreadable {
  std::string why;
};
template <class... Parts>
void readable(bool condition, const Parts&... parts) {
  if (!condition) throw Unreadable{concat(parts...)};
}

// Limits for the metadata, which is only for people.
constexpr std::size_t longest_text = 4096, most_texts = 1000;

/// Compression reduces data to no less than 1/1,032.
constexpr std::uint64_t most_gain = 1100;

/// Python's own limit for nesting in pickles.
constexpr int most_depth = 1000;

}  // namespace

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
    : pickle_(pickle),
      file_(file),
      file_bytes_(file_bytes),
      memory_left_((std::size_t{1} << 20) + 128 * pickle.bytes) {
  const PickleValue* outer = pickle.root;
  check_not_module(outer, "");
  check(outer->as<PickleDict>() != nullptr,
        "holds no dict of tensors; save one in Python: torch.save({\"name\": tensor}, PATH)");
  const PickleValue* chosen = entry.empty()  ? choose(outer)
                              : entry == "." ? outer
                                             : descend(outer, entry);
  add_metadata(outer, chosen);
  if (chosen != outer) add_metadata(chosen, chosen);
  add_values("", chosen, 0);
  require_tensors();
}

void TorchObject::check_not_module(const PickleValue* value, const std::string& name) const {
  if (!is_module(value)) return;
  throw IoError(concat(file_, ": ", name.substr(0, 100), name.empty() ? "" : " ",
                       "is a whole model (", class_of(*value->as<PickleCall>()),
                       "), which only Python can load; save its weights there: "
                       "torch.save(model.state_dict(), PATH)"));
}

void TorchObject::require_tensors() const {
  const std::string where = entry_.empty() ? "" : concat(entry_, " ");
  check(!tensors_.empty() || left_out_.empty(), where, "holds no tensors that can be read: ",
        left_out_.empty() ? "" : concat(left_out_.front().name, ": ", left_out_.front().why));
  check(!tensors_.empty(), where, "holds no tensors");
}

/// One dict under many names would make a large object from a small file.
void TorchObject::spend(std::size_t bytes) {
  check(bytes <= memory_left_,
        "holds more than its size allows: its dictionaries contain each other");
  memory_left_ -= bytes;
}

TorchObject::Contents TorchObject::contents(const PickleValue* value, int depth) {
  if (is_tensor(value)) return {.tensors = true, .weights = true};
  const auto* dict = value->as<PickleDict>();
  const auto* list = value->as<PickleSequence>();
  const auto* object = value->as<PickleCall>();
  if (dict == nullptr && list == nullptr && object == nullptr) return {};
  check(depth < most_depth, "is nested more than ", most_depth, " deep");
  // Insert an empty entry first, so that a dict that contains itself does not recurse forever.
  const auto [found, is_new] = known_.emplace(value, Contents());
  if (!is_new) return found->second;
  Contents all;
  auto look = [&](const PickleValue* part) {
    const Contents in = contents(part, depth + 1);
    all.tensors |= in.tensors;
    all.weights |= in.weights;
    all.hidden |= in.hidden;
  };
  if (dict != nullptr) {
    for (const auto& [key, part] : dict->items) look(part);
    if (has_key(*dict, "param_groups") && has_key(*dict, "state")) all.weights = false;
  } else if (list != nullptr) {
    for (const PickleValue* part : list->items) look(part);
  } else {
    for (const PickleValue* part : object->arguments->items) look(part);
    if (object->state != nullptr) look(object->state);
    all = {.hidden = all.tensors || all.hidden || is_numpy_array(*object)};
  }
  return known_[value] = all;
}

/// Prefers inner dicts: the outer dict may have a tensor next to them, such as the best accuracy.
const PickleValue* TorchObject::choose(const PickleValue* outer) {
  std::vector<std::pair<const std::string*, const PickleValue*>> candidates;
  bool has_own = false;
  for (const auto& [key, value] : outer->as<PickleDict>()->items) {
    const auto* name = key->as<std::string>();
    has_own |= name != nullptr && is_tensor(value);
    if (name != nullptr && value->as<PickleDict>() != nullptr && contents(value).weights)
      candidates.emplace_back(name, value);
  }
  auto take = [&](const auto& candidate) {
    entry_ = *candidate.first;
    for (const auto& [key, value] : outer->as<PickleDict>()->items) {
      const Contents in = contents(value);
      if (value != candidate.second && (in.weights || in.hidden))
        leave_out(key_text(key), concat("it is next to ", entry_, ", which was read"));
    }
    return candidate.second;
  };
  for (const char* usual : {"state_dict", "model_state_dict", "model", "net", "weights"}) {
    for (const auto& candidate : candidates) {
      if (*candidate.first == usual) return take(candidate);
    }
  }
  if (candidates.empty()) {
    std::unordered_set<const PickleValue*> seen;
    for (const auto& [key, value] : outer->as<PickleDict>()->items)
      if (!has_own && seen.insert(value).second && is_module(value))
        check_not_module(value, key_text(key));
    return outer;
  }
  if (candidates.size() > 1 || has_own) {
    std::string names = has_own ? "the outer one" : "";
    for (std::size_t i = 0; i < std::min<std::size_t>(candidates.size(), 5); ++i)
      names += (names.empty() ? "" : ", ") + candidates[i].first->substr(0, 100);
    throw IoError(concat(file_, ": has several dicts of tensors, ", names,
                         candidates.size() > 5 ? ", …" : "",
                         "; say which one is meant, or \".\" for all of them (--entry of "
                         "rondo-weights, TorchFileOptions::entry)"));
  }
  return take(candidates[0]);
}

/// Follows the keys in `path`, separated by dots; a key may contain dots, too.
const PickleValue* TorchObject::descend(const PickleValue* from, const std::string& path) {
  entry_ = path;
  for (std::string_view rest = path; !rest.empty();) {
    const PickleValue* next = nullptr;
    std::size_t length = 0;
    const auto* dict = from->as<PickleDict>();
    check(dict != nullptr, "has no dict ", path);
    for (const auto& [key, value] : dict->items) {
      const std::string name = key_text(key);
      if (name.empty() || is_tensor(value) || !rest.starts_with(name)) continue;
      if (rest.size() > name.size() && rest[name.size()] != '.') continue;
      if (name.size() < length) continue;  // "model.ema" rather than "model"
      next = value;
      length = name.size();
    }
    check(next != nullptr, "has no dict ", path);
    from = next;
    rest.remove_prefix(std::min(rest.size(), length + 1));
  }
  check_not_module(from, path);
  return from;
}

void TorchObject::add_metadata(const PickleValue* from, const PickleValue* chosen) {
  const auto* dict = from->as<PickleDict>();
  if (dict == nullptr) return;
  for (const auto& [key, value] : dict->items) {
    const auto* name = key->as<std::string>();
    if (name == nullptr || name->size() > longest_text ||
        std::max(metadata_.size(), others_.size()) >= most_texts)
      continue;
    std::optional<std::string> text;
    if (const auto* own = value->as<std::string>(); own != nullptr && own->size() <= longest_text)
      text = *own;
    if (const auto* number = value->as<std::int64_t>()) text = std::to_string(*number);
    if (const auto* number = value->as<double>()) text = concat(*number);
    if (const auto* truth = value->as<bool>()) text = *truth ? "True" : "False";
    const auto* object = is_tensor(value) ? nullptr : value->as<PickleCall>();
    // Tensors in the chosen dict, also in its inner dicts and lists, are read.
    const bool is_read = value == chosen || (from == chosen && object == nullptr);
    if (!text && !is_read && value->as<PickleNone>() == nullptr) others_.push_back(*name);
    if (object != nullptr) text = concat('<', class_of(*object), '>');
    if (text) metadata_[*name] = *text;
  }
}

void TorchObject::leave_out(const std::string& name, std::string why) {
  spend(128 + name.size() + why.size());
  left_out_.push_back({name, std::move(why)});
}

/// Adds the tensors in `value`, whose name is `name`. In nested dicts, keys are joined with dots.
void TorchObject::add_values(const std::string& name, const PickleValue* value, int depth) {
  check(depth < most_depth, "is nested more than ", most_depth, " deep");
  spend(16 + name.size());
  if (is_tensor(value)) {
    spend(1024 + name.size());
    check(names_.insert(name).second, "has two tensors called ", name,
          ", after the keys of nested dictionaries are joined with dots");
    try {
      tensors_.push_back(read_tensor(name, value));
    } catch (const Unreadable& reason) {
      leave_out(name, reason.why);
    }
    return;
  }
  const Contents in = contents(value);
  const auto* object = value->as<PickleCall>();
  if (object != nullptr && in.hidden)
    leave_out(name, concat("an object (", class_of(*object), "), whose tensors are not read"));
  if (!in.tensors && !in.hidden) return;
  const std::string prefix = name.empty() ? "" : name + '.';
  if (const auto* dict = value->as<PickleDict>()) {
    for (const auto& [key, part] : dict->items) {
      spend(16);
      const std::string text = key_text(key);
      if (!text.empty() || key->as<std::string>() != nullptr) {
        add_values(prefix + text, part, depth + 1);
      } else if (contents(part).tensors || contents(part).hidden) {
        leave_out(prefix + "?", "its key is neither a text nor an integer");
      }
    }
  } else if (const auto* list = value->as<PickleSequence>()) {
    for (std::size_t i = 0; i < list->items.size(); ++i)
      add_values(prefix + std::to_string(i), list->items[i], depth + 1);
  }
}

std::int64_t TorchObject::integer(const PickleValue* value, const std::string& name) const {
  const auto* number = value->as<std::int64_t>();
  check(number != nullptr && *number >= 0, name, " has a size that is not a valid number");
  return *number;
}
Dims TorchObject::dims(const PickleValue* value, const std::string& name) const {
  const auto* items = value->as<PickleSequence>();
  check(items != nullptr, name, " has no sizes");
  readable(std::ssize(items->items) <= Dims::max_rank, "it has ", items->items.size(),
           " dimensions, but tensors have at most ", Dims::max_rank, " here");
  Dims all;
  for (const PickleValue* item : items->items) all.push_back(integer(item, name));
  return all;
}

TorchObject::WantedTensor TorchObject::read_tensor(const std::string& name,
                                                   const PickleValue* value) {
  const auto* call = value->as<PickleCall>();
  const auto* parts = &call->arguments->items;
  std::string_view function = call->name();
  if (function == rebuild_parameter || function == rebuild_parameter_with_state) {
    check(!parts->empty() && is_tensor((*parts)[0]), name, " is not a tensor");
    call = (*parts)[0]->as<PickleCall>();
    parts = &call->arguments->items;
    function = call->name();
  }
  if (function == rebuild_subclass) {  // (function, class, arguments, attributes)
    const auto* made_by = parts->size() > 2 ? (*parts)[0]->as<PickleGlobal>() : nullptr;
    const auto* made_of = parts->size() > 2 ? (*parts)[2]->as<PickleSequence>() : nullptr;
    check(made_by != nullptr && made_of != nullptr, name, " is not a tensor");
    parts = &made_of->items;
    function = made_by->name;
  }
  const bool has_dtype = function == rebuild_v3;
  readable(has_dtype || function == rebuild_v2 || function == rebuild, "it is made by ",
           function.substr(0, 100), ", as sparse and quantised tensors are, which are not read");
  check(parts->size() >= (has_dtype ? 7 : 4), name, " is not a tensor");
  const std::size_t marks_at = has_dtype ? 7 : 6;
  if (parts->size() > marks_at) {  // {"neg": True}: the elements in the file have the opposite sign
    const auto* marks = (*parts)[marks_at]->as<PickleDict>();
    const bool none = (*parts)[marks_at]->as<PickleNone>() != nullptr;
    readable(none || (marks != nullptr && marks->items.empty()),
             "it is marked as a lazy negation or conjugate, which is not read");
  }
  const auto [storage, type] = find_storage(name, (*parts)[0], has_dtype ? (*parts)[6] : nullptr);
  WantedTensor tensor{.name = name,
                      .type = type,
                      .storage = storage,
                      .offset = integer((*parts)[1], name),
                      .sizes = dims((*parts)[2], name),
                      .strides = dims((*parts)[3], name)};
  readable(!type->is_complex || tensor.sizes.size() < Dims::max_rank, "its ", tensor.sizes.size(),
           " dimensions plus that of its real and imaginary parts are more than ", Dims::max_rank);
  check_extent(tensor);
  return tensor;
}

/// `dtype` is for a storage of bytes; null if the storage has a type.
std::pair<std::size_t, const StoredType*> TorchObject::find_storage(const std::string& name,
                                                                    const PickleValue* storage,
                                                                    const PickleValue* dtype) {
  const auto id = read_storage_id(storage);
  check(id.has_value(), name, " has no storage");
  readable(id->view == nullptr || id->view->as<PickleNone>() != nullptr,
           "it is a view of a storage as PyTorch before 0.4 wrote them, which is not read");
  const StoredType* type = id->type;
  std::string_view type_name = id->type_name;
  if (dtype != nullptr) {
    const auto* global = dtype->as<PickleGlobal>();
    check(global != nullptr && id->is_bytes, name, " has no dtype");
    type_name = global->name;
    type = type_of_dtype(type_name);
  }
  readable(type != nullptr && type->dtype.has_value(), "it is of ", type_name.substr(0, 100),
           ", a dtype that rondo lacks");
  const std::uint64_t unit = id->is_bytes ? 1 : type->bytes;
  const auto numel = static_cast<std::uint64_t>(integer(id->numel, name));
  check(numel <= file_bytes_ * most_gain / unit, name, " would have ", numel * unit / type->bytes,
        " elements, more than the file can hold");
  const std::uint64_t bytes = numel * unit;
  const auto [found, is_new] = storage_of_.emplace(id->key, storages_.size());
  if (is_new) {
    wanted_bytes_ += bytes;
    storages_.push_back({.key = std::string(id->key), .bytes = bytes});
  }
  check(storages_[found->second].bytes == bytes, name, " has a storage ", id->key,
        " whose size differs from that in an earlier tensor");
  if (converted_.try_emplace({found->second, type}).second && type->convert != nullptr)
    wanted_bytes_ += bytes / type->bytes * static_cast<std::uint64_t>(size_of(*type->dtype));
  check(wanted_bytes_ <= file_bytes_ * most_gain, "would have more bytes than the file can hold");
  return {found->second, type};
}

/// Checks that no element is outside the storage, and that the tensor has no more elements than the
/// storage. If a size is 0 or 1, the strides are irrelevant and are replaced by the usual ones.
void TorchObject::check_extent(WantedTensor& t) const {
  const std::uint64_t room = storages_[t.storage].bytes / t.type->bytes;
  check(t.sizes.size() == t.strides.size(), t.name, " has ", t.sizes.size(), " sizes and ",
        t.strides.size(), " strides");
  if (std::ranges::find(t.sizes, 0) != t.sizes.end()) {
    std::uint64_t product = t.type->is_complex ? 2 : 1;
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
  bool repeats = false;
  for (std::int64_t d = 0; d < t.sizes.size(); ++d) {
    const auto size = static_cast<std::uint64_t>(t.sizes[d]),
               stride = static_cast<std::uint64_t>(t.strides[d]);
    const bool fits = last < room && (size == 1 || stride <= (room - 1 - last) / (size - 1));
    check(fits, t.name, " of sizes ", t.sizes, " and strides ", t.strides, " at ", t.offset,
          " does not fit into its storage of ", room, " elements");
    repeats |= size > room || numel > room / size;
    numel = repeats ? room : numel * size;
    last += stride * (size - 1);
    if (size == 1) t.strides[d] = std::min(t.strides[d], static_cast<std::int64_t>(room));
  }
  check(last < room, t.name, " at ", t.offset, " does not fit into its storage of ", room,
        " elements");
  readable(!repeats, "its sizes ", t.sizes, " and strides ", t.strides, " repeat the ", room,
           " elements of its storage, as an expanded tensor's do, which is not read");
}

std::unordered_map<std::string_view, std::uint64_t> TorchObject::element_bytes() const {
  std::unordered_map<std::string_view, std::uint64_t> all;
  for (const PickleValue& part : pickle_.parts) {
    const auto id = read_storage_id(&part);
    if (id && (id->type != nullptr || id->is_bytes))
      all[id->key] = id->is_bytes ? 1 : id->type->bytes;
  }
  return all;
}

/// The storage converted to the dtype of `type`; null if a value cannot be represented.
StoragePtr TorchObject::convert(const WantedStorage& storage, const StoredType& type) const {
  const std::uint64_t numel = storage.bytes / type.bytes;
  if (type.dtype == boolean) {
    const auto* bytes = static_cast<const unsigned char*>(storage.memory->data());
    check(std::all_of(bytes, bytes + numel, [](unsigned char b) { return b <= 1; }), "the storage ",
          storage.key, " of bool holds a byte that is neither 0 nor 1");
  }
  if (type.convert == nullptr) return storage.memory;
  StoragePtr all =
      Tensor::empty({static_cast<std::int64_t>(numel)}, {.dtype = *type.dtype}).storage();
  return type.convert(storage.memory->data(), numel, all->data()) ? all : nullptr;
}

TorchFile TorchObject::finish() {
  for (const WantedStorage& storage : storages_)
    check(storage.memory != nullptr, "the storage ", storage.key, " is missing");
  for (auto& [which, memory] : converted_) memory = convert(storages_[which.first], *which.second);
  TorchFile result;
  for (WantedTensor& t : tensors_) {
    const StoragePtr& memory = converted_.at({t.storage, t.type});
    if (memory == nullptr) {
      leave_out(t.name,
                concat("it is of torch.", t.type->torch, ", and its storage has numbers of ",
                       "2^63 and more, for which rondo has no dtype"));
      continue;
    }
    if (t.type->is_complex) {
      t.offset *= 2;
      for (std::int64_t d = 0; d < t.strides.size(); ++d) t.strides[d] *= 2;
      t.sizes.push_back(2);
      t.strides.push_back(1);
    }
    result.tensors.push_back(
        {t.name, Tensor::over(memory, t.offset, t.sizes, t.strides, *t.type->dtype)});
  }
  tensors_.resize(result.tensors.size());
  require_tensors();
  result.entry = std::move(entry_);
  result.metadata = std::move(metadata_);
  std::erase_if(others_, [&](const std::string& name) {  // the tensors that were read are in it
    const std::string inside = name + ".";
    return result.entry.starts_with(inside) ||
           std::ranges::any_of(names_, [&](const auto& t) { return t.starts_with(inside); });
  });
  result.others = std::move(others_);
  result.left_out = std::move(left_out_);
  return result;
}

}  // namespace rondo::io::detail
