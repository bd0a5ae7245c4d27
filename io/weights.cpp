#include "io/weights.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <list>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "io/atomic_file.h"
#include "io/file_kind.h"
#include "io/mapped_file.h"
#include "io/safetensors.h"
#include "io/safetensors_index.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

using detail::FileKind;

/// An index of 100,000 tensors has 10 MB.
constexpr std::size_t most_index_bytes = std::size_t{100} << 20;

/// In a list, so that references stay valid.
std::list<WeightsFormat>& formats() {
  static std::list<WeightsFormat> all;
  return all;
}
std::mutex& formats_mutex() {
  static std::mutex mutex;
  return mutex;
}

constexpr const char* how_to_register =
    "include <rondo/rondo.h> and link rondo::rondo, or <rondo/extras/torch_files/torch_pickle.h> "
    "and rondo::torch_files";

/// The kind of a file, by its first bytes.
FileKind kind_of_file(const std::string& path, std::string& first) {
  const MappedFile file(path);
  const std::size_t n = std::min(file.bytes().size(), detail::first_bytes);
  first = detail::text_of(file.bytes().first(n));
  return detail::kind_of(first);
}

/// The format of a weights file: safetensors, the index of one in parts, or a registered format.
struct Recognised {
  FileKind kind;
  const WeightsFormat* format = nullptr;
};

/// Throws if the file is of any other kind.
Recognised recognise(const std::string& path) {
  std::string first;
  const FileKind kind = kind_of_file(path, first);
  if (kind == FileKind::safetensors || kind == FileKind::json) return {kind};
  {
    const std::lock_guard lock(formats_mutex());
    for (const WeightsFormat& format : formats())
      if (format.is_one(first)) return {kind, &format};
  }
  require<IoError>(kind == FileKind::other, path,
                   ": is a torch.save file, which this program cannot read; ", how_to_register);
  const std::string known = first.empty() ? "is empty" : detail::other_kind(first);
  throw IoError(concat(path, ": ",
                       known.empty() ? "is neither a safetensors file nor a torch.save file; "
                                       "other kinds of weights are not read"
                                     : known));
}

WeightsFile weights_of(Safetensors file) {
  return {.tensors = std::move(file.tensors),
          .metadata = std::move(file.metadata),
          .entry = {},
          .left_out = std::move(file.left_out)};
}

WeightsFile read_part(const std::string& path, const Recognised& file) {
  return file.format != nullptr ? file.format->read(path, "") : weights_of(detail::load_part(path));
}

WeightsFile read_shards(const std::string& path) {
  const MappedFile text(path);
  require<IoError>(text.bytes().size() <= most_index_bytes, path, ": has ", text.bytes().size(),
                   " bytes, but the index of a safetensors file may have at most ",
                   most_index_bytes);
  detail::SafetensorsIndex index = detail::parse_index(detail::text_of(text.bytes()), path);
  WeightsFile all{
      .tensors = {}, .metadata = std::move(index.metadata), .entry = {}, .left_out = {}};
  std::unordered_map<std::string, std::string> shard_of;  // tensors that are not found yet
  std::vector<std::string> shards;
  std::unordered_set<std::string> known;
  for (const auto& [name, shard] : index.shard_of) {
    shard_of.emplace(name, shard);
    if (known.insert(shard).second) shards.push_back(shard);
  }
  for (const std::string& shard : shards) {
    const std::filesystem::path file = std::filesystem::path(path).parent_path() / shard;
    std::error_code ignored;
    require<IoError>(std::filesystem::exists(file, ignored), path, ": the index names ", shard,
                     ", which does not exist; all parts must be in the folder of the index");
    const Recognised recognised = recognise(file.string());
    require<IoError>(recognised.kind != FileKind::json, path, ": the index names ", shard,
                     ", which is not a file of tensors");
    WeightsFile part = read_part(file.string(), recognised);
    for (nn::NamedTensor& tensor : part.tensors) {
      const auto found = shard_of.find(tensor.name);
      if (found == shard_of.end() || found->second != shard) {
        all.left_out.push_back(
            {tensor.name, concat("it is in ", shard, ", where the index does not say so")});
        continue;
      }
      shard_of.erase(found);
      all.tensors.push_back(std::move(tensor));
    }
    for (LeftOut& each : part.left_out) {
      const auto found = shard_of.find(each.name);
      if (found != shard_of.end() && found->second == shard) shard_of.erase(found);
      all.left_out.push_back(std::move(each));
    }
  }
  require<IoError>(shard_of.empty(), path, ": the index has \"",
                   shard_of.empty() ? "" : shard_of.begin()->first, "\" in ",
                   shard_of.empty() ? "" : shard_of.begin()->second, ", which has no such tensor");
  detail::require_tensors(all.tensors, all.left_out, path);
  return all;
}

}  // namespace

bool register_weights_format(WeightsFormat format) {
  const std::lock_guard lock(formats_mutex());
  for (const WeightsFormat& known : formats())
    if (known.read == format.read) return true;  // another library of the program did it
  formats().push_back(std::move(format));
  return true;
}

WeightsFile read_weights(const std::string& path, const std::string& entry) {
  const Recognised file = recognise(path);
  if (file.format != nullptr) return file.format->read(path, entry);
  require<IoError>(entry.empty(), path, " is not a torch.save file; it has no entry ", entry);
  return file.kind == FileKind::json ? read_shards(path) : weights_of(load_safetensors(path));
}

nn::StateDict load_weights(const std::string& path, const std::string& entry) {
  return read_weights(path, entry).tensors;
}

bool is_safetensors_file(const std::string& path) {
  std::string first;
  const FileKind kind = kind_of_file(path, first);
  if (kind == FileKind::other) recognise(path);  // throws unless a registered format reads it
  return kind == FileKind::safetensors;
}

void save_weights(const std::string& path, const nn::StateDict& tensors,
                  std::map<std::string, std::string> metadata) {
  require<IoError>(!path.empty(), "cannot write a file: its name is empty");
  if (path.ends_with(".safetensors")) {
    metadata.emplace("format", "pt");
    return save_safetensors(path, tensors, metadata);
  }
  std::string known = ".safetensors";
  const WeightsFormat* chosen = nullptr;
  {
    const std::lock_guard lock(formats_mutex());
    for (const WeightsFormat& format : formats()) {
      for (const std::string& ending : format.endings) {
        if (path.ends_with(ending)) chosen = &format;
        known += concat(" or ", ending);
      }
    }
  }
  if (chosen != nullptr) return chosen->write(path, tensors);
  const bool is_torch = path.ends_with(".pth") || path.ends_with(".pt");
  throw IoError(
      is_torch ? concat(path, ": this program cannot write PyTorch's format; ", how_to_register)
               : concat(path, ": the ending names the format; it must be ", known));
}

void save_weights_sharded(const std::string& path, const nn::StateDict& tensors,
                          std::int64_t max_shard_size) {
  constexpr std::string_view ending = ".safetensors.index.json";
  require<IoError>(path.ends_with(ending), path, ": the index of a sharded file ends with ",
                   ending);
  require(max_shard_size >= 1, "save_weights_sharded: max_shard_size is ", max_shard_size);
  std::vector<nn::StateDict> shards;
  std::int64_t all_bytes = 0, shard_bytes = 0;
  std::unordered_set<std::string> names;
  for (const nn::NamedTensor& entry : tensors) {
    require<IoError>(names.insert(entry.name).second, path, ": two tensors have the name \"",
                     entry.name, '"');
    const std::int64_t bytes = entry.tensor.numel() * size_of(entry.tensor.dtype());
    if (shards.empty() || shard_bytes + bytes > max_shard_size) {
      shards.emplace_back();
      shard_bytes = 0;
    }
    shards.back().push_back(entry);
    shard_bytes += bytes;
    all_bytes += bytes;
  }
  const std::string start = path.substr(0, path.size() - ending.size());
  detail::SafetensorsIndex index = {.shard_of = {},
                                    .metadata = {{"total_size", std::to_string(all_bytes)}}};
  // An old index would join old files and new ones if this call did not come to its end.
  std::error_code error;
  std::filesystem::remove(path, error);
  require<IoError>(!error, path, ": cannot be removed: ", error.message());
  for (std::size_t i = 0; i < shards.size(); ++i) {
    char number[48];
    std::snprintf(number, sizeof number, "-%05zu-of-%05zu", i + 1, shards.size());
    const std::string file = concat(start, number, ".safetensors");
    save_weights(file, shards[i]);
    for (const nn::NamedTensor& entry : shards[i])
      index.shard_of.emplace_back(entry.name, std::filesystem::path(file).filename().string());
  }
  const std::string text = detail::index_text(index);
  AtomicFile out(path);
  out.write(text.data(), text.size());
  out.commit();
}

}  // namespace rondo::io
