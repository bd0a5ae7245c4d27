#pragma once
// CSV files of numbers.
//
//   io::Csv csv = io::load_csv("iris.csv");    // sepal,petal,class / 5.1,1.4,0 / …
//   Tensor x = csv.values.narrow(1, 0, 2), y = csv.values.select(1, 2).to(i64);

#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace rondo::io {

struct CsvOptions {
  char delimiter = ',';
  /// The first line has the names of the columns.
  bool header = true;
  /// f32 or f64.
  DType dtype = f32;
};

struct Csv {
  std::vector<std::string> columns;  // empty without a header
  Tensor values;                     // (rows, columns)
};

/// Reads a file of numbers, such as 1, -2.5, 1e-3, inf and nan. Spaces around a number, "quoted"
/// names and numbers, empty lines at the end, a byte order mark and Windows' line ends are allowed.
/// A quoted name has no delimiter, quote or line end in it. Throws IoError naming file, line and
/// column for a missing value, a text that is not a number, or a number outside the range of the
/// dtype; and for a line whose number of values is another one than that of the first line. Uses at
/// most 96 bytes of memory for each byte of the file, plus 1 MiB.
Csv load_csv(const std::string& path, CsvOptions options = {});
/// Like load_csv, for a file's text in memory; error messages call it `name`.
Csv parse_csv(std::string_view text, const std::string& name, CsvOptions options = {});

}  // namespace rondo::io
