#pragma once
// Opens a data set by the name that a user types, and provides its statistics. The examples use it
// for `--dataset`.
//
// Read next: data/download.h (where it searches), data/cifar.h and data/mnist.h (the file formats).

#include <optional>

#include "data/dataset.h"
#include "data/download.h"

namespace rondo::data {

/// Mean and standard deviation of each channel of the training images, for values in [0, 1].
struct ImageStatistics {
  std::vector<float> mean, std;
};

/// The commonly used values for "cifar10", "cifar100", "mnist", "fashion_mnist".
ImageStatistics statistics_of(const std::string& name);

/// The names that open_dataset accepts.
const std::vector<std::string>& dataset_names();

struct OpenOptions {
  DownloadOptions download = {};
  /// Use only the first `limit` images.
  std::optional<std::int64_t> limit = {};
};

/// Calls find_or_download, then the reader of that data set. Throws Error for an unknown name, and
/// the errors of these two functions.
std::shared_ptr<ImageDataset> open_dataset(const std::string& name, Split split,
                                           const OpenOptions& options = {});

}  // namespace rondo::data
