#pragma once
// From the name that a user types to a data set and the numbers that go with it: what the examples
// call for `--dataset`.
//
// Read next: data/download.h (where it is looked for), data/cifar.h and data/mnist.h (what is in
// the files).

#include <optional>

#include "data/dataset.h"
#include "data/download.h"

namespace rondo::data {

/// Mean and standard deviation of the training images, for each channel, of values in [0, 1].
struct ImageStatistics {
  std::vector<float> mean, std;
};

/// The figures in common use for "cifar10", "cifar100", "mnist", "fashion_mnist".
ImageStatistics statistics_of(const std::string& name);

/// What open_dataset knows.
const std::vector<std::string>& dataset_names();

struct OpenOptions {
  DownloadOptions download = {};
  /// Only the first so many images.
  std::optional<std::int64_t> limit = {};
};

/// find_or_download, then the reader of that data set. Throws Error for an unknown name, and what
/// these two throw.
std::shared_ptr<ImageDataset> open_dataset(const std::string& name, Split split,
                                           const OpenOptions& options = {});

}  // namespace rondo::data
