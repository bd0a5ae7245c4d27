#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "tensor/error.h"

namespace rondo::io::detail {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 9> dtype_names = {"F64", "F32", "BF16", "F16", "I64",
                                                         "I32", "U8",  "I8",   "BOOL"};

std::string_view to_name(DType dtype) { return dtype_names[static_cast<std::size_t>(dtype)]; }

/// Reads the header event by event, which keeps the order of the keys, notices one that comes
/// twice, and needs neither recursion nor a tree of the whole text.
///
/// Depth 1 is the outer object, depth 2 a tensor or the metadata, depth 3 a list in a tensor.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(const std::string& file) : file_(file) {}

  Header header;

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a boolean"); }
  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override {
    return unexpected("a number with a fraction or beyond 64 bits");
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    check(list_ != nullptr, "a number stands where none belongs");
    check(list_->size() < 64, "a list is too long");
    list_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    check(depth_ == 2 && (in_metadata_ || key_ == "dtype"), "a text stands where none belongs");
    if (in_metadata_) {
      header.metadata[key_] = std::move(value);
    } else {
      dtype_ = std::move(value);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    check(depth_ < 2, "objects are nested too deeply");
    if (++depth_ == 2) {
      in_metadata_ = name_ == "__metadata__";
      dtype_.reset();
      shape_.reset();
      offsets_.reset();
      inner_keys_.clear();
    }
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      name_ = std::move(value);
      if (!names_.insert(name_).second) fail("the key \"", name_, "\" comes twice");
    } else {
      key_ = std::move(value);
      if (!inner_keys_.insert(key_).second) {
        fail("\"", name_, "\": the key \"", key_, "\" comes twice");
      }
    }
    return true;
  }

  bool end_object() override {
    if (depth_-- == 2 && !in_metadata_) finish_entry();
    return true;
  }

  bool start_array(std::size_t) override {
    check(depth_ == 2 && !in_metadata_ && !list_, "a list stands where none belongs");
    if (key_ == "shape") {
      list_ = &shape_.emplace();
    } else if (key_ == "data_offsets") {
      list_ = &offsets_.emplace();
    } else {
      fail("\"", name_, "\" has a key \"", key_, "\", which the format does not know");
    }
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail("its header is no JSON (at byte ", position, ")");
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw IoError(concat(file_, " is no valid safetensors file: ", parts...));
  }
  void check(bool ok, const char* what) const {
    if (!ok) fail("in the header, ", what);
  }
  bool unexpected(const char* what) const {
    fail("in the header, ", what, " stands where none belongs");
  }

  void finish_entry() {
    HeaderEntry e{.name = name_, .shape = {}};
    if (!dtype_ || !shape_ || !offsets_) fail("\"", name_, "\" lacks dtype, shape or data_offsets");
    auto known = std::find(dtype_names.begin(), dtype_names.end(), *dtype_);
    if (known == dtype_names.end()) {
      fail("\"", name_, "\" has dtype ", *dtype_, ", which rondo does not have");
    }
    e.dtype = static_cast<DType>(known - dtype_names.begin());
    if (shape_->size() > Dims::max_rank) {
      fail("\"", name_, "\" has ", shape_->size(), " dimensions; rondo has at most ",
           Dims::max_rank);
    }
    if (offsets_->size() != 2 || (*offsets_)[0] > (*offsets_)[1]) {
      fail("\"", name_, "\" has data_offsets that are no range");
    }
    e.begin = (*offsets_)[0];
    e.end = (*offsets_)[1];
    auto bytes = static_cast<std::uint64_t>(size_of(e.dtype));
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    bool empty = false;
    for (std::uint64_t size : *shape_) {
      empty |= size == 0;
      const std::uint64_t step = std::max<std::uint64_t>(size, 1);  // as strides_of counts
      if (bytes > most / step) fail("\"", name_, "\" has a shape beyond 64 bits");
      bytes *= step;
      e.shape.push_back(static_cast<std::int64_t>(size));
    }
    if (empty) bytes = 0;
    if (e.end - e.begin != bytes) {
      fail("\"", name_, "\" of shape ", e.shape, " and dtype ", *dtype_, " needs ", bytes,
           " bytes, its data_offsets give it ", e.end - e.begin);
    }
    header.entries.push_back(std::move(e));
  }

  const std::string& file_;
  int depth_ = 0;
  bool in_metadata_ = false;
  std::string name_, key_;
  std::optional<std::string> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
  std::vector<std::uint64_t>* list_ = nullptr;
  std::unordered_set<std::string> names_, inner_keys_;
};

/// The tensors must lie one after the other, from the first byte of the data to the last.
void check_coverage(const Header& header, std::uint64_t data_bytes, const std::string& file) {
  std::vector<const HeaderEntry*> order;
  for (const HeaderEntry& e : header.entries) order.push_back(&e);
  std::sort(order.begin(), order.end(), [](const HeaderEntry* a, const HeaderEntry* b) {
    return std::pair(a->begin, a->end) < std::pair(b->begin, b->end);
  });
  std::uint64_t position = 0;
  for (const HeaderEntry* e : order) {
    require<IoError>(e->end <= data_bytes, file, " is cut short: \"", e->name, "\" ends at byte ",
                     e->end, " of the data, of which there are ", data_bytes);
    require<IoError>(e->begin >= position, file, " is no valid safetensors file: \"", e->name,
                     "\" overlaps the tensor before it");
    require<IoError>(e->begin == position, file,
                     " is no valid safetensors file: there is a gap "
                     "before \"",
                     e->name, "\"");
    position = e->end;
  }
  require<IoError>(position == data_bytes, file,
                   " is no valid safetensors file: ", data_bytes - position,
                   " bytes at its end belong to no tensor");
}

}  // namespace

Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file) {
  require<IoError>(!text.empty() && text[0] == '{', file,
                   " is no valid safetensors file: its header does not begin with {");
  HeaderReader reader(file);
  json::sax_parse(text.begin(), text.end(), &reader);
  check_coverage(reader.header, data_bytes, file);
  return std::move(reader.header);
}

std::string format_header(const Header& header) {
  auto quoted = [](std::string_view s) {
    try {
      return json(s).dump();
    } catch (const json::exception&) {
      throw IoError(concat("safetensors: a name or metadata text is not UTF-8: ", s));
    }
  };
  std::string text(checksum_prefix);
  text.append(checksum_digits, '0');
  text += '"';
  for (const auto& [key, value] : header.metadata) {
    text += concat(",", quoted(key), ":", quoted(value));
  }
  text += '}';
  for (const HeaderEntry& e : header.entries) {
    text += concat(",", quoted(e.name), R"(:{"dtype":")", to_name(e.dtype), R"(","shape":[)");
    for (std::int64_t i = 0; i < e.shape.size(); ++i) text += concat(i ? "," : "", e.shape[i]);
    text += concat(R"(],"data_offsets":[)", e.begin, ",", e.end, "]}");
  }
  text += '}';
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace rondo::io::detail
