// The four data sets by name: their readers and their statistics.

#include "data/open.h"

#include "data/cifar.h"
#include "data/mnist.h"

namespace rondo::data {

const std::vector<std::string>& dataset_names() {
  static const std::vector<std::string> names{"cifar10", "cifar100", "mnist", "fashion_mnist"};
  return names;
}

ImageStatistics statistics_of(const std::string& name) {
  if (name == "cifar10") return {{0.4914F, 0.4822F, 0.4465F}, {0.2470F, 0.2435F, 0.2616F}};
  if (name == "cifar100") return {{0.5071F, 0.4865F, 0.4409F}, {0.2673F, 0.2564F, 0.2762F}};
  if (name == "mnist") return {{0.1307F}, {0.3081F}};
  require(name == "fashion_mnist", "unknown data set '", name,
          "'; use one of cifar10, cifar100, mnist, fashion_mnist");
  return {{0.2860F}, {0.3530F}};
}

std::shared_ptr<ImageDataset> open_dataset(const std::string& name, Split split,
                                           const OpenOptions& options) {
  const auto dir = find_or_download(name, options.download);
  if (name == "cifar10") return load_cifar10(dir, split, {.limit = options.limit});
  if (name == "cifar100") return load_cifar100(dir, split, {.limit = options.limit});
  if (name == "mnist") return load_mnist(dir, split, {.limit = options.limit});
  return load_fashion_mnist(dir, split, {.limit = options.limit});
}

}  // namespace rondo::data
