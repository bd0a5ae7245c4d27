#include "io/safetensors_index.h"

#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tensor/error.h"

namespace rondo::io::detail {
namespace {

using nlohmann::json;

/// Reads the text event by event. This keeps the order of the keys, detects duplicate keys, and
/// does not build a tree, which could be nested arbitrarily deep.
class IndexReader final : public nlohmann::json_sax<json> {
 public:
  explicit IndexReader(const std::string& file) : file_(file) {}

  SafetensorsIndex index;
  bool has_map = false;

  bool null() override { return add({}); }
  bool boolean(bool value) override { return add(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return add(std::to_string(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(std::to_string(value)); }
  bool number_float(number_float_t, const string_t& text) override { return add(text); }
  bool binary(binary_t&) override { return add({}); }

  bool string(string_t& value) override {
    if (depth_ != 2 || outer_ != "weight_map") return add(std::move(value));
    const bool stays = !value.empty() && value != "." && value != ".." &&
                       value.find('/') == std::string::npos &&
                       value.find('\0') == std::string::npos;
    require<IoError>(stays, file_,
                     ": a part must be a file in the folder of its index, which names \"", value,
                     "\"");
    require<IoError>(names_.insert(key_).second, file_, ": the index has \"", key_, "\" twice");
    index.shard_of.emplace_back(key_, std::move(value));
    return true;
  }

  bool start_object(std::size_t) override {
    ++depth_;
    has_map |= depth_ == 2 && outer_ == "weight_map";
    return true;
  }
  bool key(string_t& value) override {
    (depth_ == 1 ? outer_ : key_) = std::move(value);
    return true;
  }
  bool end_object() override {
    --depth_;
    return true;
  }
  // Elements of an array have no key.
  bool start_array(std::size_t) override {
    const bool is_read = add({});
    depth_ += in_array;
    return is_read;
  }
  bool end_array() override {
    depth_ -= in_array;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw IoError(concat(file_, ": is not valid JSON (at byte ", position, ")"));
  }

 private:
  bool add(std::string value) {
    require<IoError>(depth_ != 2 || outer_ != "weight_map", file_,
                     ": the index has no file name for \"", key_, "\"");
    if (depth_ == 2 && outer_ == "metadata" && !value.empty())
      index.metadata[key_] = std::move(value);
    return true;
  }

  static constexpr int in_array = 1000;

  const std::string& file_;
  int depth_ = 0;
  std::string outer_, key_;
  std::unordered_set<std::string> names_;
};

}  // namespace

SafetensorsIndex parse_index(std::string_view text, const std::string& file) {
  // The JSON library would treat a NUL as the end of the text.
  const std::size_t nul = text.find('\0');
  require<IoError>(nul == std::string_view::npos, file, ": is not valid JSON (a NUL at byte ", nul,
                   ")");
  IndexReader reader(file);
  json::sax_parse(text.begin(), text.end(), &reader);
  require<IoError>(reader.has_map, file,
                   ": is JSON text without the \"weight_map\" that the index of a safetensors file "
                   "in several parts has");
  return std::move(reader.index);
}

std::string index_text(const SafetensorsIndex& index) {
  nlohmann::ordered_json all = {{"metadata", nlohmann::ordered_json::object()},
                                {"weight_map", nlohmann::ordered_json::object()}};
  for (const auto& [key, value] : index.metadata) {
    if (key == "total_size")
      all["metadata"][key] = std::stoll(value);
    else
      all["metadata"][key] = value;
  }
  for (const auto& [tensor, file] : index.shard_of) all["weight_map"][tensor] = file;
  return all.dump(2) + "\n";
}

}  // namespace rondo::io::detail
