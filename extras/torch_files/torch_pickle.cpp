#include "extras/torch_files/torch_pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string_view>
#include <unordered_map>

#include "extras/torch_files/pickle.h"
#include "extras/torch_files/torch_object.h"
#include "io/file_kind.h"
#include "io/mapped_file.h"
#include "io/weights.h"
#include "io/zip.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

using detail::TorchObject, detail::WantedStorage;

static_assert(std::endian::native == std::endian::little, "PyTorch's files are little-endian");

// ---- The zip format.

/// A pickle has about 200 bytes for each tensor, and compresses to a tenth: far below this limit.
std::size_t most_pickle_bytes(std::size_t file_bytes) {
  return std::min(std::size_t{64} << 20, (std::size_t{1} << 20) + 32 * file_bytes);
}

struct ZipPickle {
  std::string folder;  // in the archive
  Pickle pickle;
};

ZipPickle pickle_of_zip(std::span<const std::byte> bytes, const std::string& file) {
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
      require<IoError>(!name.ends_with("/constants.pkl"), file,
                       ": is a TorchScript archive, a program; in Python, save its weights: "
                       "torch.save(torch.jit.load(FILE).state_dict(), PATH)");
      require<IoError>(!name.ends_with(".npy"), file,
                       ": is a NumPy archive (.npz); io::load_npz reads it");
    }
  }
  require<IoError>(has_pickle, file,
                   ": is a zip archive without the data.pkl that torch.save writes; if the weights "
                   "are in it, unpack it first: unzip FILE");
  return {std::move(folder), parse_pickle(std::as_bytes(std::span(text)), file)};
}

TorchFile parse_zip(std::span<const std::byte> bytes, const std::string& file,
                    const TorchFileOptions& options) {
  const auto [folder, pickle] = pickle_of_zip(bytes, file);
  TorchObject object(pickle, options.entry, file, bytes.size());
  std::unordered_map<std::string, WantedStorage*> wanted;
  for (WantedStorage& storage : object.storages())
    wanted[folder + "data/" + storage.key] = &storage;
  ZipReader zip(bytes, file);
  std::size_t missing = wanted.size();
  for (std::string name; missing > 0 && zip.next(name);) {
    const auto found = wanted.find(name);
    if (found == wanted.end()) continue;
    WantedStorage& storage = *found->second;
    require<IoError>(storage.memory == nullptr, file, ": has two files called ", name);
    require<IoError>(zip.size() == 0 || zip.size() == storage.bytes, file, ": ", name, " has ",
                     zip.size(), " bytes, but ", storage.bytes, " are needed");
    zip.read(storage.allocate(), storage.bytes);
    --missing;
  }
  return object.finish();
}

// ---- The older format.

constexpr std::int64_t legacy_version = 1001;

/// The object; moves `at` behind it.
Pickle legacy_object(std::span<const std::byte> bytes, const std::string& file, std::size_t& at) {
  auto next = [&] {
    Pickle pickle = parse_pickle(bytes.subspan(at), file);
    at += pickle.bytes;
    return pickle;
  };
  const Pickle magic = next();
  const auto* number = magic.root->as<PickleBytes>();
  require<IoError>(number != nullptr && number->bytes == detail::torch_legacy_magic, file,
                   ": is not a torch.save file");
  const Pickle version_pickle = next();
  const auto* version = version_pickle.root->as<std::int64_t>();
  require<IoError>(version != nullptr && *version == legacy_version, file,
                   ": has an unknown version of PyTorch's format");
  const Pickle machine = next();
  if (const auto* facts = machine.root->as<PickleDict>()) {
    for (const auto& [key, value] : facts->items) {
      const auto* name = key->as<std::string>();
      const auto* truth = value->as<bool>();
      require<IoError>(name == nullptr || *name != "little_endian" || truth == nullptr || *truth,
                       file, ": was written by a machine with the other byte order");
    }
  }
  return next();
}

TorchFile parse_legacy(std::span<const std::byte> bytes, const std::string& file,
                       const TorchFileOptions& options) {
  std::size_t at = 0;
  const Pickle object_pickle = legacy_object(bytes, file, at);
  TorchObject object(object_pickle, options.entry, file, bytes.size());
  const Pickle keys = parse_pickle(bytes.subspan(at), file);
  at += keys.bytes;
  const auto* list = keys.root->as<PickleSequence>();
  require<IoError>(list != nullptr, file, ": has no list of storages");
  // Unneeded storages are in between, so the sizes of all are needed.
  const auto element_bytes = object.element_bytes();
  std::unordered_map<std::string_view, WantedStorage*> wanted_ones;
  for (WantedStorage& storage : object.storages()) wanted_ones[storage.key] = &storage;
  for (const PickleValue* item : list->items) {
    const auto* key = item->as<std::string>();
    require<IoError>(key != nullptr && element_bytes.contains(*key), file,
                     ": has an unknown storage");
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
                       ": the storage ", *key, " has ", numel * element, " bytes, but ",
                       storage.bytes, " are needed, or appears twice");
      void* memory = storage.allocate();
      if (numel > 0)
        std::memcpy(memory, bytes.data() + at, static_cast<std::size_t>(storage.bytes));
    }
    at += static_cast<std::size_t>(numel * element);
  }
  return object.finish();
}

/// Calls the reader of the file's format. All errors become an IoError with its name.
template <class Result>
Result by_format(std::span<const std::byte> bytes, const std::string& name, const auto& of_zip,
                 const auto& of_legacy) {
  const std::string_view first =
      detail::text_of(bytes.first(std::min(bytes.size(), detail::first_bytes)));
  const detail::FileKind kind = detail::kind_of(first);
  try {
    if (kind == detail::FileKind::torch_zip) return of_zip();
    if (kind == detail::FileKind::torch_legacy) return of_legacy();
  } catch (const IoError&) {
    throw;
  } catch (const Error& error) {  // for example out of memory
    throw IoError(concat(name, ": ", error.what()));
  } catch (const std::bad_alloc&) {
    throw IoError(concat(name, ": there is not enough memory to load it"));
  }
  const std::string other = first.empty() ? "is empty" : detail::other_kind(first);
  throw IoError(concat(name, ": ", other.empty() ? "is not a torch.save file" : other));
}

}  // namespace

TorchFile parse_torch(std::span<const std::byte> bytes, const std::string& name,
                      const TorchFileOptions& options) {
  return by_format<TorchFile>(
      bytes, name, [&] { return parse_zip(bytes, name, options); },
      [&] { return parse_legacy(bytes, name, options); });
}

Pickle detail::parse_torch_object(std::span<const std::byte> bytes, const std::string& name) {
  return by_format<Pickle>(
      bytes, name, [&] { return pickle_of_zip(bytes, name).pickle; },
      [&] {
        std::size_t at = 0;
        return legacy_object(bytes, name, at);
      });
}

TorchFile load_torch(const std::string& path, const TorchFileOptions& options) {
  const MappedFile file(path);
  return parse_torch(file.bytes(), path, options);
}

bool detail::register_torch_files() {
  return register_weights_format({.is_one =
                                      [](std::string_view first) {
                                        const FileKind kind = kind_of(first);
                                        return kind == FileKind::torch_zip ||
                                               kind == FileKind::torch_legacy;
                                      },
                                  .read =
                                      [](const std::string& path, const std::string& entry) {
                                        TorchFile file = load_torch(path, {.entry = entry});
                                        return WeightsFile{.tensors = std::move(file.tensors),
                                                           .metadata = std::move(file.metadata),
                                                           .others = std::move(file.others),
                                                           .entry = std::move(file.entry),
                                                           .left_out = std::move(file.left_out)};
                                      },
                                  .endings = {".pth", ".pt"},
                                  .write = save_torch});
}

}  // namespace rondo::io
