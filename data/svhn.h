#pragma once
// SVHN (Netzer et al. 2011): house numbers, cropped to 32 × 32 pixels around each digit.
//
//   http://ufldl.stanford.edu/housenumbers, "Format 2"
//
// train_32x32.mat has 73257 images and test_32x32.mat 26032. They are files of MATLAB (level 5)
// with two compressed arrays in column-major order: X, bytes (32, 32, 3, N), and y, (N, 1), where
// the digit 0 has the label 10. Source: "MAT-File Format", www.mathworks.com.

#include <optional>
#include <string>

#include "data/dataset.h"

namespace rondo::data {

struct SvhnOptions {
  /// Use only the first `limit` images of the split.
  std::optional<std::int64_t> limit = {};
};

/// Reads `dir`/train_32x32.mat or test_32x32.mat: images u8 (N, 3, 32, 32), labels i64 (N), the
/// digit itself. Throws IoError naming a file that is missing, damaged, or has other arrays. Uses
/// at most 3,100 bytes of memory for each byte of the file, because compression may gain as much.
std::shared_ptr<ImageDataset> load_svhn(const std::string& dir, Split split,
                                        SvhnOptions options = {});

}  // namespace rondo::data
