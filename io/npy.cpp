// The header is a Python dict of three keys. A parser of exactly that form is enough: NumPy writes
// no other.

#include "io/npy.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "io/atomic_file.h"
#include "io/file_kind.h"
#include "io/mapped_file.h"
#include "io/stored_type.h"
#include "io/zip.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

constexpr std::string_view npy_magic = "\x93NUMPY";
/// NumPy itself refuses longer headers.
constexpr std::size_t most_header_bytes = 10000;

struct NpyHeader {
  std::string descr;
  bool fortran_order = false;
  Dims shape;
};

/// Reads {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }, with the keys in any order.
class NpyHeaderParser {
 public:
  NpyHeaderParser(std::string_view text, const std::string& name) : left_(text), name_(name) {}

  NpyHeader parse() {
    NpyHeader header;
    std::set<std::string> keys;
    expect('{');
    while (!take('}')) {
      const std::string key = text();
      if (!keys.insert(key).second) fail();
      expect(':');
      if (key == "descr") {
        require<IoError>(!next_is('['), name_,
                         ": is an array of structs; save its fields one by one");
        header.descr = text();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean_word();
      } else if (key == "shape") {
        header.shape = dims();
      } else {
        fail();
      }
      if (!take(',') && !next_is('}')) fail();
    }
    skip_spaces();
    if (!left_.empty() || keys.size() != 3) fail();
    return header;
  }

 private:
  [[noreturn]] void fail() const {
    throw IoError(concat(name_, ": the header is not that of a NumPy array"));
  }
  void skip_spaces() {
    left_.remove_prefix(std::min(left_.find_first_not_of(" \n"), left_.size()));
  }
  bool next_is(char c) {
    skip_spaces();
    return left_.starts_with(c);
  }
  bool take(char c) {
    if (!next_is(c)) return false;
    left_.remove_prefix(1);
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail();
  }
  std::string text() {
    const char quote = next_is('"') ? '"' : '\'';
    expect(quote);
    const std::size_t end = left_.find(quote);
    if (end == std::string_view::npos) fail();
    const std::string value(left_.substr(0, end));
    left_.remove_prefix(end + 1);
    return value;
  }
  bool boolean_word() {
    skip_spaces();
    for (const std::string_view word : {"True", "False"}) {
      if (!left_.starts_with(word)) continue;
      left_.remove_prefix(word.size());
      return word == "True";
    }
    fail();
  }
  Dims dims() {
    Dims shape;
    expect('(');
    while (!take(')')) {
      skip_spaces();
      std::int64_t size = 0;
      const auto [end, error] = std::from_chars(left_.data(), left_.data() + left_.size(), size);
      if (error != std::errc() || size < 0) fail();
      require<IoError>(shape.size() < Dims::max_rank, name_, ": has more than ", Dims::max_rank,
                       " dimensions, which rondo does not support");
      left_.remove_prefix(static_cast<std::size_t>(end - left_.data()));
      if (left_.starts_with('L')) left_.remove_prefix(1);  // written by Python 2
      shape.push_back(size);
      if (!take(',') && !next_is(')')) fail();
    }
    return shape;
  }

  std::string_view left_;
  const std::string& name_;
};

/// The stored type of a descr without its byte order, such as "f4"; null: not a dtype of numbers.
const detail::StoredType* stored_type_of(std::string_view descr) {
  constexpr std::pair<char, std::string_view> kinds[] = {
      {'f', "float"}, {'i', "int"}, {'u', "uint"}, {'c', "complex"}, {'b', "bool"}};
  std::uint64_t bytes = 0;
  const char* const end = descr.data() + descr.size();
  if (descr.size() < 2 || std::from_chars(descr.data() + 1, end, bytes).ptr != end) return nullptr;
  for (const auto& [kind, torch] : kinds) {
    if (descr[0] != kind) continue;
    for (const auto& type : detail::stored_types()) {
      const std::string bits = kind == 'b' ? "" : std::to_string(8 * type.bytes);
      if (type.bytes == bytes && type.torch == concat(torch, bits)) return &type;
    }
  }
  return nullptr;
}

/// The bytes in the order of this machine.
std::vector<char> swapped(const std::byte* from, std::size_t bytes, std::size_t number_bytes) {
  std::vector<char> out(bytes);
  std::memcpy(out.data(), from, bytes);
  for (std::size_t at = 0; at < bytes; at += number_bytes)
    std::reverse(out.begin() + static_cast<std::ptrdiff_t>(at),
                 out.begin() + static_cast<std::ptrdiff_t>(at + number_bytes));
  return out;
}

Tensor read_npy_data(std::span<const std::byte> data, const NpyHeader& header,
                     const detail::StoredType& type, const std::string& name) {
  std::uint64_t elements = 1;
  bool fits = true, empty = false;
  for (const std::int64_t size : header.shape) {
    empty |= size == 0;
    const auto n = static_cast<std::uint64_t>(std::max<std::int64_t>(size, 1));
    fits &= n <= (std::uint64_t{1} << 58) / elements;
    if (fits) elements *= n;
  }
  if (empty) elements = 0;
  require<IoError>(fits && data.size() == elements * type.bytes, name, ": has ", data.size(),
                   " bytes of data, but shape ", header.shape, " of ", header.descr,
                   " does not have this size; the file is damaged or cut short");
  const std::size_t numbers = type.is_complex ? 2 : 1;
  const void* from = data.data();
  std::vector<char> native;
  if (header.descr[0] == '>' && type.bytes > numbers) {
    native = swapped(data.data(), data.size(), type.bytes / numbers);
    from = native.data();
  }
  Dims sizes = header.shape;
  if (header.fortran_order) std::reverse(sizes.begin(), sizes.end());
  if (type.is_complex) {
    require<IoError>(sizes.size() < Dims::max_rank, name, ": has ", sizes.size(),
                     " dimensions of complex numbers; rondo supports ", Dims::max_rank - 1);
    sizes.push_back(2);
  }
  Tensor x = Tensor::empty(sizes, {.dtype = *type.dtype});
  if (elements > 0) {
    if (type.convert == nullptr)
      std::memcpy(x.data_ptr(), from, data.size());
    else
      require<IoError>(type.convert(from, elements, x.data_ptr()), name,
                       ": has a value that i64 cannot represent");
  }
  if (type.dtype == boolean) {
    for (const std::byte value : data)
      require<IoError>(value <= std::byte{1}, name, ": has a bool that is neither 0 nor 1");
  }
  if (!header.fortran_order) return x;
  Dims order;
  for (std::int64_t i = std::ssize(header.shape); i > 0; --i) order.push_back(i - 1);
  if (type.is_complex) order.push_back(std::ssize(header.shape));
  return x.permute(order).contiguous();
}

std::string descr_of(DType dtype) {
  switch (dtype) {
    case f64:
      return "<f8";
    case f32:
      return "<f4";
    case f16:
      return "<f2";
    case i64:
      return "<i8";
    case i32:
      return "<i4";
    case u8:
      return "|u1";
    case i8:
      return "|i1";
    case boolean:
      return "|b1";
    case bf16:
      break;
  }
  throw DTypeError("save_npy: NumPy has no bf16; convert the tensor with .to(f32) first");
}

}  // namespace

Tensor parse_npy(std::span<const std::byte> bytes, const std::string& name) {
  const auto* text = reinterpret_cast<const char*>(bytes.data());
  const auto byte = [&](std::size_t at) { return static_cast<std::size_t>(bytes[at]); };
  require<IoError>(
      bytes.size() >= 10 && std::string_view(text, 6) == npy_magic, name,
      ": is not a .npy file; it does not begin with \\x93NUMPY",
      detail::text_of(bytes).starts_with("PK") ? " (a .npz file, which load_npz reads?)" : "");
  const std::size_t version = byte(6);
  require<IoError>(version >= 1 && version <= 3 && byte(7) == 0, name, ": has version ", version,
                   ".", byte(7), " of the format; 1.0, 2.0 and 3.0 are supported");
  const std::size_t begin = version == 1 ? 10 : 12;
  require<IoError>(bytes.size() >= begin, name, ": is cut short in its header");
  std::size_t length = byte(8) | byte(9) << 8;
  if (version > 1) length |= byte(10) << 16 | byte(11) << 24;
  require<IoError>(length <= most_header_bytes && length <= bytes.size() - begin, name,
                   ": has a header of ", length, " bytes, but ", bytes.size() - begin,
                   " bytes follow, and at most ", most_header_bytes, " are supported");
  const NpyHeader header = NpyHeaderParser({text + begin, length}, name).parse();
  const detail::StoredType* type = nullptr;
  if (!header.descr.empty() && std::string_view("<>|").find(header.descr[0]) != std::string::npos)
    type = stored_type_of(std::string_view(header.descr).substr(1));
  require<IoError>(type != nullptr && type->dtype.has_value(), name, ": has dtype '", header.descr,
                   "'; rondo reads bools, integers, floats of up to 64 bits and complex numbers");
  return read_npy_data(bytes.subspan(begin + length), header, *type, name);
}

Tensor load_npy(const std::string& path) {
  const MappedFile file(path);
  return parse_npy(file.bytes(), path);
}

nn::StateDict load_npz(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text = detail::text_of(file.bytes());
  require<IoError>(text.starts_with("PK"), path, ": is not a .npz file; it does not begin with PK",
                   text.starts_with(npy_magic) ? " (a .npy file, which load_npy reads?)" : "");
  nn::StateDict arrays;
  std::set<std::string> names;
  // A byte of deflate makes at most 1,032 bytes.
  const std::size_t most = file.bytes().size() > (std::size_t{1} << 50)
                               ? std::numeric_limits<std::size_t>::max()
                               : 1032 * file.bytes().size();
  ZipReader zip(file.bytes(), path);
  for (std::string name; zip.next(name);) {
    const std::string where = path + ": " + name;
    require<IoError>(name.ends_with(".npy"), where, ": is not an array, whose name ends with .npy");
    const std::string bytes = zip.read_text(most);
    name.resize(name.size() - 4);
    require<IoError>(names.insert(name).second, where, ": appears twice");
    arrays.push_back({name, parse_npy(std::as_bytes(std::span(bytes)), where)});
  }
  return arrays;
}

void save_npy(const std::string& path, const Tensor& x) {
  require(x.defined(), "save_npy: the tensor is undefined");
  std::string header =
      "{'descr': '" + descr_of(x.dtype()) + "', 'fortran_order': False, 'shape': (";
  for (std::int64_t i = 0; i < x.dim(); ++i) {
    if (i > 0) header += ' ';
    header += std::to_string(x.size(i));
    if (i + 1 < x.dim() || x.dim() == 1) header += ',';
  }
  header += "), }";
  // NumPy leaves room for the first size to grow to 21 digits.
  if (x.dim() > 0) header.append(21 - std::to_string(x.size(0)).size(), ' ');
  constexpr std::size_t alignment = 64, before = 10;
  header.append(alignment - (before + header.size() + 1) % alignment, ' ');
  header += '\n';
  const auto length = static_cast<std::uint16_t>(header.size());
  const char start[] = {1, 0, static_cast<char>(length & 0xff), static_cast<char>(length >> 8)};
  const Tensor here = x.detach().to(Device::cpu()).contiguous();
  AtomicFile file(path);
  file.write(npy_magic.data(), npy_magic.size());
  file.write(start, sizeof start);
  file.write(header.data(), header.size());
  if (here.numel() > 0) file.write(here.data_ptr(), static_cast<std::size_t>(here.nbytes()));
  file.commit();
}

}  // namespace rondo::io
