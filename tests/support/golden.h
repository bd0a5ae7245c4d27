#pragma once
// Goldens: results of a real PyTorch, stored as text in tests/golden/ next to the scripts that made
// them (tests/golden/make_*.py; the scripts need python3 with torch, the tests do not).
//
// A file of tensors has one tensor per line: name dtype sizes-or-"-" values, e.g. "sum.x f32 2,2 1
// 2.5 nan -inf". A file of texts has blocks "=== name" followed by the text.

#include <map>
#include <string>

#include "tensor/tensor.h"

namespace rondo::test {

/// A file of the source tree, by its absolute path. If it does not exist, as on a machine that runs
/// packed programs (scripts/gpu_check.sh --bundle), $RONDO_TEST_FILES is searched:
/// /src/tests/golden/x is $RONDO_TEST_FILES/tests/golden/x.
std::string source_file(const std::string& path);

/// The tensors of tests/golden/<file>.
class Golden {
 public:
  explicit Golden(const std::string& file);
  /// A new handle to the tensor `name`; throws IoError if the file does not contain it.
  Tensor operator[](const std::string& name) const;
  bool has(const std::string& name) const { return tensors_.count(name) > 0; }

 private:
  std::string file_;
  std::map<std::string, Tensor> tensors_;
};

/// tests/golden/kernels.txt.
const Golden& kernel_golden();

/// The texts of tests/golden/<file>, without the final newline.
std::map<std::string, std::string> golden_texts(const std::string& file);
/// A text of hexadecimal digits, converted to bytes.
std::string golden_bytes(const std::string& file, const std::string& name);

}  // namespace rondo::test
