#include "io/csv.h"

#include <charconv>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <type_traits>

#include "io/mapped_file.h"
#include "tensor/error.h"

namespace rondo::io {
namespace {

/// Takes the text up to `end` away from `text`; all of it if `end` does not occur.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view part = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return part;
}

/// Without spaces and quotes around it.
std::string_view stripped(std::string_view field) {
  const auto strip = [&](std::string_view characters) {
    const std::size_t first = field.find_first_not_of(characters);
    if (first == std::string_view::npos) return std::string_view();
    return field.substr(first, field.find_last_not_of(characters) - first + 1);
  };
  field = strip(" \t\r");
  if (field.size() >= 2 && field.front() == '"' && field.back() == '"')
    return stripped(field.substr(1, field.size() - 2));
  return field;
}

/// The fields of a line. A delimiter at its end is followed by an empty field.
std::vector<std::string_view> fields_of(std::string_view line, char delimiter) {
  std::vector<std::string_view> fields;
  std::size_t more = 1;
  for (const char c : line) more += c == delimiter;
  for (; more > 0; --more) fields.push_back(stripped(take_until(line, delimiter)));
  return fields;
}

template <class T>
T number_of(std::string_view field, const std::string& where) {
  require<IoError>(!field.empty(), where, "a value is missing; fill it in, or leave out the line");
  const bool has_plus = field[0] == '+' && !field.starts_with("+-");
  const std::string_view digits = has_plus ? field.substr(1) : field;
  T value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if constexpr (std::is_floating_point_v<T>) {  // 1e-50 is 0 in f32
    long double wide = 0;
    if (error == std::errc::result_out_of_range && end == digits.data() + digits.size() &&
        std::from_chars(digits.data(), digits.data() + digits.size(), wide).ec == std::errc() &&
        wide < 1 && wide > -1)
      return static_cast<T>(wide);
  }
  require<IoError>(error != std::errc::result_out_of_range, where, "'", field,
                   "' is outside the range of the dtype");
  require<IoError>(error == std::errc() && end == digits.data() + digits.size(), where, "'", field,
                   "' is not a number");
  return value;
}

template <class T>
Csv parse_numbers(std::string_view text, const std::string& name, const CsvOptions& options) {
  Csv csv;
  std::vector<T> values;
  std::size_t columns = 0, rows = 0;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::string_view whole = take_until(text, '\n');
    const std::string in_line = concat(name, ", line ", line);
    if (stripped(whole).empty()) {
      require<IoError>(text.find_first_not_of(" \t\r\n") == std::string_view::npos, in_line,
                       ": is empty, but more lines follow");
      break;
    }
    const auto fields = fields_of(whole, options.delimiter);
    if (line == 1) columns = fields.size();
    require<IoError>(fields.size() == columns, in_line, ": has ", fields.size(),
                     " values, but the first line has ", columns);
    if (line == 1 && options.header) {
      csv.columns.assign(fields.begin(), fields.end());
      continue;
    }
    for (std::size_t column = 0; column < columns; ++column)
      values.push_back(
          number_of<T>(fields[column], concat(in_line, ", column ", column + 1, ": ")));
    ++rows;
  }
  csv.values = Tensor::empty({static_cast<std::int64_t>(rows), static_cast<std::int64_t>(columns)},
                             {.dtype = options.dtype});
  if (!values.empty()) std::memcpy(csv.values.data_ptr(), values.data(), values.size() * sizeof(T));
  return csv;
}

}  // namespace

Csv parse_csv(std::string_view text, const std::string& name, CsvOptions options) {
  require<DTypeError>(options.dtype == f32 || options.dtype == f64, "load_csv: dtype ",
                      options.dtype, " should be f32 or f64; convert the result with .to()");
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  return options.dtype == f32 ? parse_numbers<float>(text, name, options)
                              : parse_numbers<double>(text, name, options);
}

Csv load_csv(const std::string& path, CsvOptions options) {
  const MappedFile file(path);
  return parse_csv({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path,
                   options);
}

}  // namespace rondo::io
