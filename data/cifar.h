#pragma once
// CIFAR-10 and CIFAR-100 (Krizhevsky 2009) in their official binary form.
//
//   https://www.cs.toronto.edu/~kriz/cifar.html, "binary version"
//
// A file is a sequence of records. CIFAR-10: one byte with the label, then 1024 bytes red, 1024
// green, 1024 blue, each a 32 × 32 plane in row-major order; six files of 10000 records. CIFAR-100:
// one byte with the coarse label (of 20), one with the fine label (of 100), then the same 3072
// bytes; train.bin with 50000 records and test.bin with 10000. The planes are already in the order
// (C, H, W), so reading only copies bytes.
//
// Read next: data/download.h, which finds or fetches these folders.

#include <optional>
#include <string>

#include "data/dataset.h"

namespace rondo::data {

struct CifarOptions {
  /// Use only the first `limit` images of the split.
  std::optional<std::int64_t> limit = {};
  /// CIFAR-100: use its 20 superclasses instead of its 100 classes.
  bool coarse_labels = false;
  /// The number of records that each file must have; 0 means the official number (10000, and 50000
  /// in CIFAR-100's train.bin). Other numbers are for shortened copies.
  std::int64_t records_per_file = 0;
};

/// Reads cifar-10-batches-bin, which is `dir` or a folder in it: images u8 (N, 3, 32, 32), labels
/// i64 (N), class names from batches.meta.txt if that file exists. Throws IoError naming a file
/// that is missing or has a wrong size, and naming file and record if a label is above 9.
std::shared_ptr<ImageDataset> load_cifar10(const std::string& dir, Split split,
                                           CifarOptions options = {});

/// The same for cifar-100-binary, with names from fine_label_names.txt or coarse_label_names.txt.
std::shared_ptr<ImageDataset> load_cifar100(const std::string& dir, Split split,
                                            CifarOptions options = {});

}  // namespace rondo::data
