#pragma once
// STL-10 (Coates, Lee and Ng 2011) in its official binary form: 96 × 96 colour images of ten
// classes.
//
//   https://cs.stanford.edu/~acoates/stl10/, stl10_binary.tar.gz
//
// train_X.bin has 5000 images and test_X.bin 8000. An image is three planes, red, green and blue,
// of 9216 bytes each; a plane is in column-major order, and the reader turns it around.
// train_y.bin and test_y.bin have one byte for each image, a class from 1 to 10.

#include <optional>
#include <string>

#include "data/dataset.h"

namespace rondo::data {

struct Stl10Options {
  /// Use only the first `limit` images of the split.
  std::optional<std::int64_t> limit = {};
  /// The number of images in the file; 0: the official number. Others are for shortened copies.
  std::int64_t records = 0;
};

/// Reads stl10_binary, which is `dir` or a folder in it: images u8 (N, 3, 96, 96), labels i64 (N)
/// from 0 to 9. Class names are those of class_names.txt if that file exists. Throws IoError naming
/// a file that is missing or has a wrong size, and naming file and image if a label is not in 1 …
/// 10.
std::shared_ptr<ImageDataset> load_stl10(const std::string& dir, Split split,
                                         Stl10Options options = {});

}  // namespace rondo::data
