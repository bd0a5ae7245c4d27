#include "io/torch_pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <map>
#include <new>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/mapped_file.h"
#include "io/pickle.h"
#include "io/zip.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

static_assert(std::endian::native == std::endian::little, "PyTorch's files are little-endian");

// ---- The names that such a file may have.

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

const std::set<std::string>& allowed_globals() {
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

const StorageType* find_type(const std::string& name) {
  const auto* found = std::ranges::find_if(
      storage_types, [&](const StorageType& type) { return type.name == name; });
  return found != std::end(storage_types) ? found : nullptr;
}

// ---- From the pickle to what is wanted of the storages.

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

struct WantedStorage {
  std::string key;
  DType dtype = f32;
  std::uint64_t bytes = 0;
  StoragePtr memory;
};
struct WantedTensor {
  std::string name;
  std::size_t storage = 0;  // which of the wanted ones
  std::int64_t offset = 0;  // elements
  Dims sizes, strides;
};

class Interpreter {
 public:
  Interpreter(const std::string& file, std::size_t file_bytes)
      : file_(file), file_bytes_(file_bytes) {}

  std::vector<WantedStorage> storages;
  std::vector<WantedTensor> tensors;
  std::string entry;
  std::map<std::string, std::string> metadata;

  void read(const PickleValue* root, const std::string& wanted) {
    const auto* outer = root->as<PickleDict>();
    require<IoError>(outer != nullptr, file_,
                     ": holds no dict of tensors; of a whole model that was saved, save its "
                     "state_dict()");
    add_metadata(*outer);
    const PickleDict* dict = wanted.empty()  ? choose(*outer)
                             : wanted == "." ? outer
                                             : descend(*outer, wanted);
    if (dict != outer) add_metadata(*dict);
    for (const auto& [key, value] : dict->items) {
      const auto* name = key->as<std::string>();
      if (name != nullptr && is_tensor(value)) add_tensor(*name, value);
    }
    require<IoError>(!tensors.empty(), file_, ": ", wanted.empty() ? "" : concat(entry, " "),
                     "holds no tensors");
  }

 private:
  template <class... Parts>
  void check(bool condition, const Parts&... parts) const {
    require<IoError>(condition, file_, ": ", parts...);
  }

  static bool makes_parameter(const PickleCall& call) {
    return call.function->name == rebuild_parameter ||
           call.function->name == rebuild_parameter_with_state;
  }
  static bool is_tensor(const PickleValue* value) {
    const auto* call = value->as<PickleCall>();
    return call != nullptr && (call->function->name == rebuild_v2 ||
                               call->function->name == rebuild || makes_parameter(*call));
  }
  /// Each dict is gone through once, however many names it has.
  bool has_tensors(const PickleDict& dict) {
    const auto [found, is_new] = known_.emplace(&dict, false);
    if (is_new)
      found->second =
          std::ranges::any_of(dict.items, [](const auto& item) { return is_tensor(item.second); });
    return found->second;
  }

  /// Inner dicts first: beside them the outer one may have a tensor, the best accuracy so far.
  const PickleDict* choose(const PickleDict& outer) {
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
        entry = usual;
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
    entry = *candidates[0].first;
    return candidates[0].second;
  }

  /// Along keys with dots between them; a key may have dots of its own.
  const PickleDict* descend(const PickleDict& from, const std::string& path) {
    entry = path;
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

  void add_metadata(const PickleDict& dict) {
    for (const auto& [key, value] : dict.items) {
      const auto* name = key->as<std::string>();
      if (name == nullptr || name->size() > longest_text || metadata.size() >= most_texts) continue;
      const auto* text = value->as<std::string>();
      if (text != nullptr && text->size() <= longest_text) metadata[*name] = *text;
      if (const auto* number = value->as<std::int64_t>()) metadata[*name] = std::to_string(*number);
      if (const auto* number = value->as<double>()) metadata[*name] = concat(*number);
      if (const auto* truth = value->as<bool>()) metadata[*name] = *truth ? "True" : "False";
    }
  }

  std::int64_t integer(const PickleValue* value, const std::string& name) const {
    const auto* number = value->as<std::int64_t>();
    check(number != nullptr && *number >= 0, name, " has a size that is no number");
    return *number;
  }
  Dims dims(const PickleValue* value, const std::string& name) const {
    const auto* items = value->as<PickleSequence>();
    check(items != nullptr, name, " has no sizes");
    check(std::ssize(items->items) <= Dims::max_rank, name, " has ", items->items.size(),
          " dimensions, and tensors have at most ", Dims::max_rank);
    Dims all;
    for (const PickleValue* item : items->items) all.push_back(integer(item, name));
    return all;
  }

  void add_tensor(const std::string& name, const PickleValue* value) {
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
    const auto [found, is_new] = tensor_of_.emplace(name, tensors.size());
    if (is_new) {
      tensors.push_back(std::move(tensor));
    } else {
      tensors[found->second] = std::move(tensor);  // as in a dict
    }
  }

  std::size_t find_storage(const std::string& name, const PickleValue* value) {
    const auto id = read_storage_id(value);
    check(id.has_value(), name, " has no storage");
    check(id->view == nullptr || id->view->as<PickleNone>() != nullptr, name,
          " is a view of a storage as PyTorch before 0.4 wrote them, which is not read");
    check(id->type != nullptr && id->type->dtype.has_value(), name, " is of ", id->type_name,
          ", a dtype that rondo lacks");
    const auto numel = static_cast<std::uint64_t>(integer(id->numel, name));
    // Compressed, data may be as much as 1,032 times as long as it is in the file.
    check(numel <= file_bytes_ * 1100 / id->type->element, name, " would have ", numel,
          " elements, more than the file can hold");
    const std::uint64_t bytes = numel * id->type->element;
    const auto [found, is_new] = storage_of_.emplace(id->key, storages.size());
    if (is_new) {
      wanted_bytes_ += bytes;
      check(wanted_bytes_ <= file_bytes_ * 1100, "would have more bytes than the file can hold");
      storages.push_back({.key = std::string(id->key),
                          .dtype = *id->type->dtype,
                          .bytes = bytes,
                          .memory = nullptr});
    } else {
      const WantedStorage& same = storages[found->second];
      check(same.dtype == *id->type->dtype && same.bytes == bytes, name, " has another storage ",
            id->key, " than a tensor before it");
    }
    return found->second;
  }

  /// That no element lies beyond the storage, and that there are no more elements than it has.
  /// Where there are none, or one along a dimension, strides say nothing: they become the usual.
  void check_extent(WantedTensor& t) const {
    const WantedStorage& storage = storages[t.storage];
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
            " does not fit into its storage of ", room, " elements");
      numel *= size;
      last += stride * (size - 1);
      if (size == 1) t.strides[d] = std::min<std::int64_t>(t.strides[d], std::int64_t(room));
    }
    check(last < room, t.name, " at ", t.offset, " does not fit into its storage of ", room,
          " elements");
  }

  // Of the metadata, which is for people.
  static constexpr std::size_t longest_text = 4096, most_texts = 1000;

  const std::string& file_;
  std::size_t file_bytes_;
  std::uint64_t wanted_bytes_ = 0;
  std::map<const PickleDict*, bool> known_;
  std::unordered_map<std::string_view, std::size_t> tensor_of_, storage_of_;
};

/// Memory for a storage, to be filled.
void allocate(WantedStorage& storage) {
  storage.memory =
      Tensor::empty({static_cast<std::int64_t>(storage.bytes)}, {.dtype = u8}).storage();
}

TorchFile finish(Interpreter& all, const std::string& file) {
  for (const WantedStorage& storage : all.storages) {
    require<IoError>(storage.memory != nullptr, file, ": the storage ", storage.key, " is missing");
    if (storage.dtype != boolean) continue;
    const auto* bytes = static_cast<const unsigned char*>(storage.memory->data());
    require<IoError>(
        std::all_of(bytes, bytes + storage.bytes, [](unsigned char b) { return b <= 1; }), file,
        ": the storage ", storage.key, " of bool holds a byte that is neither 0 nor 1");
  }
  TorchFile result{
      .tensors = {}, .entry = std::move(all.entry), .metadata = std::move(all.metadata)};
  for (const WantedTensor& t : all.tensors) {
    const WantedStorage& storage = all.storages[t.storage];
    result.tensors.push_back(
        {t.name, Tensor::over(storage.memory, t.offset, t.sizes, t.strides, storage.dtype)});
  }
  return result;
}

// ---- The zip form.

/// A pickle has some 200 bytes for each tensor, and compresses to a tenth: far less than this.
std::size_t most_pickle_bytes(std::size_t file_bytes) {
  return std::min(std::size_t{64} << 20, (std::size_t{1} << 20) + 32 * file_bytes);
}

TorchFile parse_zip(std::span<const std::byte> bytes, const std::string& file,
                    const TorchFileOptions& options) {
  std::string folder, text;
  bool has_pickle = false;
  {
    ZipReader zip(bytes, file);
    for (std::string name; zip.next(name);) {
      if (name.ends_with("data.pkl") && (name.size() == 8 || name[name.size() - 9] == '/')) {
        require<IoError>(!has_pickle, file, ": has two files called data.pkl");
        folder = name.substr(0, name.size() - 8);
        text = zip.read_text(most_pickle_bytes(bytes.size()));
        has_pickle = true;
      } else if (name.ends_with("/byteorder")) {
        const std::string order = zip.read_text(100);
        require<IoError>(order == "little", file, ": its byte order is ", order, ", not little");
      }
    }
  }
  require<IoError>(has_pickle, file, ": has no data.pkl, so torch.save did not write it");
  const Pickle pickle = parse_pickle(std::as_bytes(std::span(text)), allowed_globals(), file);
  Interpreter all(file, bytes.size());
  all.read(pickle.root, options.entry);
  std::unordered_map<std::string, WantedStorage*> wanted;
  for (WantedStorage& storage : all.storages) wanted[folder + "data/" + storage.key] = &storage;
  ZipReader zip(bytes, file);
  std::size_t missing = wanted.size();
  for (std::string name; missing > 0 && zip.next(name);) {
    const auto found = wanted.find(name);
    if (found == wanted.end()) continue;
    WantedStorage& storage = *found->second;
    require<IoError>(storage.memory == nullptr, file, ": has two files called ", name);
    require<IoError>(zip.size() == 0 || zip.size() == storage.bytes, file, ": ", name, " has ",
                     zip.size(), " bytes where ", storage.bytes, " are needed");
    allocate(storage);
    zip.read(storage.memory->data(), storage.bytes);
    --missing;
  }
  return finish(all, file);
}

// ---- The form before it.

/// The number 0x1950a86a20f9469cfc6c, as a pickle holds it.
constexpr std::string_view legacy_magic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
/// It is in the file's first bytes, behind what the protocol of the pickle puts before it.
constexpr std::size_t most_before_magic = 32;
constexpr std::int64_t legacy_version = 1001;

/// Bytes of an element, by key; of storages that are not wanted, too, since they lie in between.
std::unordered_map<std::string_view, std::uint64_t> elements_of_all_storages(const Pickle& object) {
  std::unordered_map<std::string_view, std::uint64_t> all;
  for (const PickleValue& part : object.parts) {
    const auto id = read_storage_id(&part);
    if (id && id->type != nullptr) all[id->key] = id->type->element;
  }
  return all;
}

TorchFile parse_legacy(std::span<const std::byte> bytes, const std::string& file,
                       const TorchFileOptions& options) {
  std::size_t at = 0;
  auto next = [&] {
    Pickle pickle = parse_pickle(bytes.subspan(at), allowed_globals(), file);
    at += pickle.bytes;
    return pickle;
  };
  const Pickle magic = next();
  const auto* number = magic.root->as<PickleBytes>();
  require<IoError>(number != nullptr && number->bytes == legacy_magic, file,
                   ": is no file of torch.save's");
  const Pickle version_pickle = next();
  const auto* version = version_pickle.root->as<std::int64_t>();
  require<IoError>(version != nullptr && *version == legacy_version, file,
                   ": is of a version of PyTorch's format that is not known");
  const Pickle machine = next();
  if (const auto* facts = machine.root->as<PickleDict>()) {
    for (const auto& [key, value] : facts->items) {
      const auto* name = key->as<std::string>();
      const auto* truth = value->as<bool>();
      require<IoError>(name == nullptr || *name != "little_endian" || truth == nullptr || *truth,
                       file, ": was written by a machine with the other byte order");
    }
  }
  const Pickle object = next();
  Interpreter all(file, bytes.size());
  all.read(object.root, options.entry);
  const Pickle keys = next();
  const auto* list = keys.root->as<PickleSequence>();
  require<IoError>(list != nullptr, file, ": has no list of storages");
  const auto element_bytes = elements_of_all_storages(object);
  std::unordered_map<std::string_view, WantedStorage*> wanted_ones;
  for (WantedStorage& storage : all.storages) wanted_ones[storage.key] = &storage;
  for (const PickleValue* item : list->items) {
    const auto* key = item->as<std::string>();
    require<IoError>(key != nullptr && element_bytes.contains(*key), file,
                     ": has a storage of which nothing is known");
    std::uint64_t numel = 0;
    require<IoError>(bytes.size() - at >= sizeof numel, file, ": is cut short");
    std::memcpy(&numel, bytes.data() + at, sizeof numel);
    at += sizeof numel;
    const std::uint64_t element = element_bytes.at(*key);
    require<IoError>(numel <= (bytes.size() - at) / element, file, ": is cut short: the storage ",
                     *key, " has ", numel, " elements");
    const auto found = wanted_ones.find(*key);
    if (found != wanted_ones.end()) {
      WantedStorage& storage = *found->second;
      require<IoError>(numel * element == storage.bytes && storage.memory == nullptr, file,
                       ": the storage ", *key, " has ", numel * element, " bytes where ",
                       storage.bytes, " are needed, or comes twice");
      allocate(storage);
      if (numel > 0)
        std::memcpy(storage.memory->data(), bytes.data() + at,
                    static_cast<std::size_t>(storage.bytes));
    }
    at += static_cast<std::size_t>(numel * element);
  }
  return finish(all, file);
}

}  // namespace

namespace {

bool is_zip(std::string_view text) {
  return text.starts_with("PK\x03\x04") || text.starts_with("PK\x05\x06");
}
bool is_legacy(std::string_view text) {
  return text.starts_with('\x80') &&
         text.substr(0, most_before_magic).find(legacy_magic) != std::string_view::npos;
}
std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

bool is_torch_file(std::span<const std::byte> bytes) {
  return is_zip(text_of(bytes)) || is_legacy(text_of(bytes));
}

TorchFile parse_torch(std::span<const std::byte> bytes, const std::string& name,
                      const TorchFileOptions& options) {
  const std::string_view text = text_of(bytes);
  try {
    if (is_zip(text)) return parse_zip(bytes, name, options);
    if (is_legacy(text)) return parse_legacy(bytes, name, options);
  } catch (const IoError&) {
    throw;
  } catch (const Error& error) {  // out of memory, say
    throw IoError(concat(name, ": ", error.what()));
  } catch (const std::bad_alloc&) {
    throw IoError(concat(name, ": there is not enough memory for it"));
  }
  require<IoError>(text.size() < 262 || text.substr(257, 5) != "ustar", name,
                   ": is a tar archive, as PyTorch before 0.1.10 wrote them, which is not read");
  throw IoError(concat(name, ": is no file of torch.save's"));
}

TorchFile load_torch(const std::string& path, const TorchFileOptions& options) {
  const MappedFile file(path);
  return parse_torch(file.bytes(), path, options);
}

}  // namespace rondo::io
