#include "io/safetensors_header.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>
#include <utility>

#include "tensor/error.h"

namespace rondo::io::detail {
namespace {

using nlohmann::json;

std::string_view to_name(DType dtype) {
  return stored_types()[static_cast<std::size_t>(dtype)].safetensors;
}

/// Reads the header event by event. This keeps the order of the keys, detects duplicate keys, and
/// needs neither recursion nor a tree of the whole text.
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
    check(list_ != nullptr, "a number is not allowed here");
    check(list_->size() < 64, "a list is too long");
    list_->push_back(value);
    return true;
  }

  bool string(string_t& value) override {
    check(depth_ == 2 && (in_metadata_ || key_ == "dtype"), "a text is not allowed here");
    if (in_metadata_) {
      if (!header.metadata.emplace(key_, std::move(value)).second) comes_twice();
    } else {
      if (dtype_) comes_twice();
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
    }
    return true;
  }

  bool key(string_t& value) override {
    if (depth_ == 1) {
      name_ = std::move(value);
      if (!names_.insert(name_).second) fail("the key \"", name_, "\" appears twice");
    } else {
      key_ = std::move(value);
    }
    return true;
  }

  bool end_object() override {
    if (depth_-- == 2 && !in_metadata_) finish_entry();
    return true;
  }

  bool start_array(std::size_t) override {
    check(depth_ == 2 && !in_metadata_ && !list_, "a list is not allowed here");
    auto* list = key_ == "shape" ? &shape_ : key_ == "data_offsets" ? &offsets_ : nullptr;
    if (list == nullptr)
      fail("\"", name_, "\" has a key \"", key_, "\", which the format does not know");
    if (*list) comes_twice();
    list_ = &list->emplace();
    return true;
  }
  bool end_array() override {
    list_ = nullptr;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    fail("its header is not JSON (at byte ", position, ")");
  }

 private:
  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw IoError(concat(file_, " is not a valid safetensors file: ", parts...));
  }
  [[noreturn]] void comes_twice() const {
    fail("\"", name_, "\": the key \"", key_, "\" appears twice");
  }
  void check(bool ok, const char* what) const {
    if (!ok) fail("in the header, ", what);
  }
  bool unexpected(const char* what) const { fail("in the header, ", what, " is not allowed here"); }

  void finish_entry() {
    HeaderEntry e{.name = name_, .shape = {}};
    if (!dtype_ || !shape_ || !offsets_) fail("\"", name_, "\" lacks dtype, shape or data_offsets");
    if (offsets_->size() != 2 || (*offsets_)[0] > (*offsets_)[1]) {
      fail("\"", name_, "\" has data_offsets that are not a range");
    }
    e.begin = (*offsets_)[0];
    e.end = (*offsets_)[1];
    const auto types = stored_types();
    const auto known =
        std::ranges::find_if(types, [&](const StoredType& t) { return t.safetensors == *dtype_; });
    if (known == types.end() || dtype_->empty()) {  // the size of its elements is unknown, too
      e.left_out = concat("it is of ", dtype_->substr(0, 100), ", a dtype that rondo lacks");
      header.entries.push_back(std::move(e));
      return;
    }
    e.stored = &*known;
    e.dtype = *known->dtype;
    if (known->is_complex) shape_->push_back(2);
    if (shape_->size() > Dims::max_rank)
      e.left_out = concat("it has ", shape_->size(), " dimensions, but tensors have at most ",
                          Dims::max_rank, " here");
    std::uint64_t bytes = known->is_complex ? known->bytes / 2 : known->bytes;
    constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
    bool empty = false;
    for (std::uint64_t size : *shape_) {
      empty |= size == 0;
      const std::uint64_t step = std::max<std::uint64_t>(size, 1);  // the same rule as strides_of
      if (bytes > most / step) fail("\"", name_, "\" has a shape beyond 64 bits");
      bytes *= step;
      if (e.left_out.empty()) e.shape.push_back(static_cast<std::int64_t>(size));
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
  std::unordered_set<std::string> names_;
};

/// Checks that the tensors follow each other without gaps, from the first byte of the data to the
/// last.
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
    require<IoError>(e->begin >= position, file, " is not a valid safetensors file: \"", e->name,
                     "\" overlaps the tensor before it");
    require<IoError>(e->begin == position, file,
                     " is not a valid safetensors file: there is a gap "
                     "before \"",
                     e->name, "\"");
    position = e->end;
  }
  require<IoError>(position == data_bytes, file,
                   " is not a valid safetensors file: ", data_bytes - position,
                   " bytes at its end belong to no tensor");
}

}  // namespace

Header parse_header(std::string_view text, std::uint64_t data_bytes, const std::string& file) {
  require<IoError>(!text.empty() && text[0] == '{', file,
                   " is not a valid safetensors file: its header does not begin with {");
  // The JSON library would treat a NUL as the end of the text.
  const std::size_t nul = text.find('\0');
  require<IoError>(nul == std::string_view::npos, file,
                   " is not a valid safetensors file: its header has a NUL (at byte ", nul,
                   "), where the format has spaces");
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
