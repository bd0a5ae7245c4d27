#include "io/safetensors.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <unordered_set>

#include "io/atomic_file.h"
#include "io/file_kind.h"
#include "io/hash.h"
#include "io/mapped_file.h"
#include "io/safetensors_header.h"

namespace rondo::io {
namespace {

using detail::Header;
using detail::HeaderEntry;

static_assert(std::endian::native == std::endian::little, "safetensors are little-endian");

/// The source of the bytes: a file or memory.
class Source {
 public:
  virtual ~Source() = default;
  virtual std::uint64_t size() const = 0;
  /// requires: offset + bytes <= size().
  virtual void read(std::uint64_t offset, void* to, std::size_t bytes) = 0;
};

class FileSource final : public Source {
 public:
  explicit FileSource(const std::string& path)
      : path_(path), descriptor_(detail::open_to_read(path, size_)) {}
  ~FileSource() override { ::close(descriptor_); }
  std::uint64_t size() const override { return size_; }
  void read(std::uint64_t offset, void* to, std::size_t bytes) override {
    auto* at = static_cast<char*>(to);
    while (bytes > 0) {
      ssize_t n = ::pread(descriptor_, at, std::min(bytes, std::size_t{1} << 30),
                          static_cast<off_t>(offset));
      if (n < 0 && errno == EINTR) continue;
      require<IoError>(n > 0, "cannot read ", path_, ": ",
                       n < 0 ? std::strerror(errno) : "another process truncated it");
      at += n;
      offset += static_cast<std::uint64_t>(n);
      bytes -= static_cast<std::size_t>(n);
    }
  }

 private:
  std::string path_;
  std::uint64_t size_ = 0;
  int descriptor_;
};

class MemorySource final : public Source {
 public:
  explicit MemorySource(std::span<const std::byte> bytes) : bytes_(bytes) {}
  std::uint64_t size() const override { return bytes_.size(); }
  void read(std::uint64_t offset, void* to, std::size_t bytes) override {
    if (bytes) std::memcpy(to, bytes_.data() + offset, bytes);
  }

 private:
  std::span<const std::byte> bytes_;
};

struct Head {
  std::string text;
  Header header;
  std::uint64_t data_begin;
  std::string checksum;  // empty: the file has none
};

/// Throws if the file is of another known kind.
void check_kind(Source& source, const std::string& file) {
  std::string first(std::min<std::uint64_t>(source.size(), detail::first_bytes), '\0');
  source.read(0, first.data(), first.size());
  const std::string other = detail::other_kind(first);
  require<IoError>(other.empty(), file, ": ", other);
}

Head read_head(Source& source, const std::string& file) {
  std::uint64_t length = 0;
  check_kind(source, file);
  require<IoError>(source.size() >= sizeof length, file, " is cut short: it has ", source.size(),
                   " bytes, but a safetensors file has at least 8");
  source.read(0, &length, sizeof length);
  require<IoError>(length <= detail::max_header_bytes, file,
                   " is not a valid safetensors file: its header would have ", length,
                   " bytes, but the format allows at most ", detail::max_header_bytes);
  require<IoError>(length <= source.size() - sizeof length, file, " is cut short: its header has ",
                   length, " bytes, but the whole file has ", source.size());
  Head head{.text = std::string(length, '\0'),
            .header = {},
            .data_begin = sizeof length + length,
            .checksum = {}};
  source.read(sizeof length, head.text.data(), length);
  head.header = detail::parse_header(head.text, source.size() - head.data_begin, file);
  if (head.text.starts_with(detail::checksum_prefix))
    head.checksum = head.header.metadata.at(detail::checksum_key);
  head.header.metadata.erase(detail::checksum_key);
  return head;
}

/// Hashes the length and the header, with the digits of the checksum set to zero.
void hash_head(Sha256& hash, std::string text) {
  std::uint64_t length = text.size();
  std::size_t digits =
      std::min(detail::checksum_digits, text.size() - detail::checksum_prefix.size());
  std::fill_n(text.begin() + detail::checksum_prefix.size(), digits, '0');
  hash.update(&length, sizeof length);
  hash.update(text);
}

void check_booleans(const Tensor& x, const std::string& name, const std::string& file) {
  const auto* bytes = static_cast<const unsigned char*>(x.data_ptr());
  bool valid = std::all_of(bytes, bytes + x.numel(), [](unsigned char b) { return b <= 1; });
  require<IoError>(valid, file, ": the boolean tensor \"", name,
                   "\" holds a byte that is neither 0 nor 1");
}

/// Converts elements of a file to a rondo dtype. If a value cannot be represented, marks the entry
/// as left out.
Tensor converted(const Tensor& raw, HeaderEntry& e) {
  Tensor x = Tensor::empty(e.shape, {.dtype = e.dtype});
  const auto elements = static_cast<std::uint64_t>(raw.numel()) / e.stored->bytes;
  if (!e.stored->convert(raw.data_ptr(), elements, x.data_ptr()))
    e.left_out = concat("it is of ", e.stored->safetensors,
                        " and has numbers of 2^63 and more, for which rondo has no dtype");
  return x;
}

Safetensors read_all(Source& source, const std::string& file) {
  Head head = read_head(source, file);
  Safetensors result{.tensors = {}, .metadata = std::move(head.header.metadata), .left_out = {}};
  Sha256 hash;
  if (!head.checksum.empty()) hash_head(hash, std::move(head.text));
  // In the order of the data, which covers the file without gaps: one pass reads and hashes.
  std::vector<std::size_t> order(head.header.entries.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return head.header.entries[a].begin < head.header.entries[b].begin;
  });
  std::vector<Tensor> read(order.size());
  for (std::size_t i : order) {
    HeaderEntry& e = head.header.entries[i];
    auto bytes = static_cast<std::size_t>(e.end - e.begin);
    if (!e.left_out.empty() && head.checksum.empty()) continue;
    const bool as_it_is = e.left_out.empty() && e.stored->convert == nullptr;
    Tensor x = as_it_is ? Tensor::empty(e.shape, {.dtype = e.dtype})
                        : Tensor::empty({static_cast<std::int64_t>(bytes)}, {.dtype = u8});
    if (bytes > 0) {
      source.read(head.data_begin + e.begin, x.data_ptr(), bytes);
      if (!head.checksum.empty()) hash.update(x.data_ptr(), bytes);
      if (as_it_is && e.dtype == boolean) check_booleans(x, e.name, file);
    }
    read[i] = e.left_out.empty() && !as_it_is ? converted(x, e) : x;
  }
  for (std::size_t i = 0; i < read.size(); ++i) {
    const HeaderEntry& e = head.header.entries[i];
    if (e.left_out.empty()) {
      result.tensors.push_back({e.name, read[i]});
    } else {
      result.left_out.push_back({e.name, e.left_out});
    }
  }
  if (!head.checksum.empty()) {
    require<IoError>(hash.hex() == head.checksum, file,
                     " is damaged: its contents do not match its SHA-256 checksum");
    result.verified = true;
  }
  return result;
}

/// Computes the offsets of the tensors, wider element types first. Each tensor then starts at a
/// multiple of its element size, so other readers can map the file.
Header plan(const std::string& path, const nn::StateDict& tensors,
            const std::map<std::string, std::string>& metadata, std::vector<std::size_t>& order) {
  Header header{.entries = {}, .metadata = metadata};
  require<IoError>(!metadata.contains(detail::checksum_key), "cannot write ", path,
                   ": the metadata key \"", detail::checksum_key,
                   "\" is reserved for the checksum");
  std::unordered_set<std::string> names{"__metadata__"};
  for (const auto& [name, tensor] : tensors) {
    require<IoError>(names.insert(name).second, "cannot write ", path, ": \"", name,
                     "\" names two tensors, or is reserved");
    require<IoError>(tensor.defined(), "cannot write ", path, ": \"", name, "\" is undefined");
    order.push_back(header.entries.size());
    header.entries.push_back({.name = name, .dtype = tensor.dtype(), .shape = tensor.shape()});
  }
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return size_of(header.entries[a].dtype) > size_of(header.entries[b].dtype);
  });
  std::uint64_t position = 0;
  for (std::size_t i : order) {
    header.entries[i].begin = position;
    position += static_cast<std::uint64_t>(tensors[i].tensor.nbytes());
    header.entries[i].end = position;
  }
  return header;
}

}  // namespace

void detail::require_tensors(const nn::StateDict& tensors, const std::vector<LeftOut>& left_out,
                             const std::string& file) {
  require<IoError>(
      !tensors.empty() || left_out.empty(), file,
      " holds no tensors that can be read: ", left_out.empty() ? "" : left_out.front().name, ": ",
      left_out.empty() ? "" : left_out.front().why);
}

Safetensors detail::load_part(const std::string& path) {
  FileSource source(path);
  return read_all(source, path);
}

Safetensors load_safetensors(const std::string& path) {
  Safetensors file = detail::load_part(path);
  detail::require_tensors(file.tensors, file.left_out, path);
  return file;
}

std::map<std::string, std::string> load_safetensors_metadata(const std::string& path) {
  FileSource source(path);
  return read_head(source, path).header.metadata;
}

Safetensors parse_safetensors(std::span<const std::byte> bytes, const std::string& name) {
  MemorySource source(bytes);
  Safetensors file = read_all(source, name);
  detail::require_tensors(file.tensors, file.left_out, name);
  return file;
}

void save_safetensors(const std::string& path, const nn::StateDict& tensors,
                      const std::map<std::string, std::string>& metadata) {
  std::vector<std::size_t> order;
  std::string text = detail::format_header(plan(path, tensors, metadata, order));
  require<IoError>(text.size() <= detail::max_header_bytes, "cannot write ", path,
                   ": its header would have ", text.size(),
                   " bytes, but the format allows at most ", detail::max_header_bytes);
  Sha256 hash;
  hash_head(hash, text);
  AtomicFile file(path);
  std::uint64_t length = text.size();
  file.write(&length, sizeof length);
  file.write(text.data(), text.size());
  for (std::size_t i : order) {
    Tensor x = row_major(tensors[i].tensor);
    auto bytes = static_cast<std::size_t>(x.nbytes());
    if (bytes == 0) continue;
    hash.update(x.data_ptr(), bytes);
    file.write(x.data_ptr(), bytes);
  }
  std::string checksum = hash.hex();
  file.write_at(sizeof length + detail::checksum_prefix.size(), checksum.data(), checksum.size());
  file.commit();
}

}  // namespace rondo::io
