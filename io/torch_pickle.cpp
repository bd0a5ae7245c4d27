#include "io/torch_pickle.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <string_view>
#include <unordered_map>

#include "io/mapped_file.h"
#include "io/pickle.h"
#include "io/torch_object.h"
#include "io/zip.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

using detail::torch_globals, detail::TorchObject, detail::WantedStorage;

static_assert(std::endian::native == std::endian::little, "PyTorch's files are little-endian");

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
  const Pickle pickle = parse_pickle(std::as_bytes(std::span(text)), torch_globals(), file);
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
                     zip.size(), " bytes where ", storage.bytes, " are needed");
    zip.read(storage.allocate(), storage.bytes);
    --missing;
  }
  return object.finish();
}

// ---- The form before it.

/// The number 0x1950a86a20f9469cfc6c, as a pickle holds it.
constexpr std::string_view legacy_magic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19");
/// It is in the file's first bytes, behind what the protocol of the pickle puts before it.
constexpr std::size_t most_before_magic = 32;
constexpr std::int64_t legacy_version = 1001;

TorchFile parse_legacy(std::span<const std::byte> bytes, const std::string& file,
                       const TorchFileOptions& options) {
  std::size_t at = 0;
  auto next = [&] {
    Pickle pickle = parse_pickle(bytes.subspan(at), torch_globals(), file);
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
  const Pickle object_pickle = next();
  TorchObject object(object_pickle, options.entry, file, bytes.size());
  const Pickle keys = next();
  const auto* list = keys.root->as<PickleSequence>();
  require<IoError>(list != nullptr, file, ": has no list of storages");
  // Those that are not wanted lie between those that are.
  const auto element_bytes = object.element_bytes();
  std::unordered_map<std::string_view, WantedStorage*> wanted_ones;
  for (WantedStorage& storage : object.storages()) wanted_ones[storage.key] = &storage;
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
      void* memory = storage.allocate();
      if (numel > 0)
        std::memcpy(memory, bytes.data() + at, static_cast<std::size_t>(storage.bytes));
    }
    at += static_cast<std::size_t>(numel * element);
  }
  return object.finish();
}

// ---- Which it is.

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

bool is_torch_file(const std::string& path) {
  const MappedFile file(path);
  return is_zip(text_of(file.bytes())) || is_legacy(text_of(file.bytes()));
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
