#pragma once
// Goldens: what a real PyTorch computed, stored as text under tests/golden/ beside the script that
// made it (tests/golden/make_*.py; they need python3 with torch, the tests do not).
//
// A file of tensors has one tensor a line: name dtype sizes-or-"-" values, e.g. "sum.x f32 2,2
// 1 2.5 nan -inf". A file of texts has blocks "=== name" followed by the text.

#include <map>
#include <string>

#include "tensor/tensor.h"

namespace rondo::test {

/// A file of the source tree by its absolute path. Where that is not here, as on a machine that
/// runs packed programs (scripts/gpu_check.sh --bundle), it is looked for in $RONDO_TEST_FILES:
/// /src/tests/golden/x is $RONDO_TEST_FILES/tests/golden/x.
std::string source_file(const std::string& path);

/// The tensors of tests/golden/<file>.
class Golden {
 public:
  explicit Golden(const std::string& file);
  /// A fresh handle to the tensor `name`; throws IoError when the file has none.
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
/// One of them that is hexadecimal digits, as the bytes that they stand for.
std::string golden_bytes(const std::string& file, const std::string& name);

}  // namespace rondo::test
