#pragma once
// Pretrained models: the weights come from a known name or from a file. Similar to torch.hub and to
// the `weights` argument of torchvision's models.
//
//   nn::ResNet net = hub::resnet18({.pretrained = "resnet18", .num_classes = 10});
//   nn::freeze(net, "layer*");                    // nn/select.h
//   optim::SGD sgd(nn::parameters_like(net, "fc.*"), {.lr = 0.1});
//
// A name refers to a file on its authors' server. It is downloaded once into the folder weights/ of
// $RONDO_DATA, the folder of all downloads (data::cache_dir), and its SHA-256 is checked. Any other
// string is a path.

#include <string>
#include <vector>

#include "data/download.h"
#include "extras/torch_files/torch_pickle.h"  // most weights are .pth files
#include "io/key_rules.h"
#include "nn/models/cifar_resnet.h"
#include "nn/models/resnet.h"

namespace rondo::hub {

struct PretrainedWeights {
  std::string name;       // "resnet18", "cifar10_resnet20"
  data::RemoteFile file;  // with its file name in the cache
  std::string entry;      // the dict in the file, as for io::load_weights
};

/// The known names: torchvision's ResNets for ImageNet (BSD-3-Clause), chenyaofo's for CIFAR
/// (BSD-3-Clause), and those added by add_weights.
std::vector<PretrainedWeights> known_weights();
/// Adds weights; replaces existing ones with the same name.
void add_weights(PretrainedWeights weights);

/// The download of these weights, for data::obtain. Throws Error with the known names if `name` is
/// unknown.
data::RemoteDataset remote_weights(const std::string& name);

/// Returns the tensors, with the names in the file. A file does not say with which mean and
/// standard deviation its images were normalised: see its authors' documentation. A wrong choice
/// costs many points of accuracy. Throws IoError if something is wrong with the file, the server or
/// the checksum; and IoError with the known names if the string is neither a known name nor a file.
nn::StateDict load_pretrained(const std::string& name_or_file,
                              const data::DownloadOptions& options = {});

struct PretrainedOptions {
  /// A name or a file; empty: random weights.
  std::string pretrained = {};
  /// 0: the number of the weights' classes, or 1,000 for random weights. If it differs from the
  /// number in the weights, the last layer is initialised randomly.
  std::int64_t num_classes = 0;
  /// Applied to the keys of the file before they are compared with those of the model.
  io::KeyRules keys = {.rename = {{"^module\\.", ""}}};
  data::DownloadOptions download = {};
};

/// torchvision's networks. The stem is that of the weights, or ImageNet's for random weights. They
/// throw the errors of load_pretrained, and Error listing keys that are missing, unexpected or of
/// the wrong shape.
nn::ResNet resnet18(const PretrainedOptions& options = {});
nn::ResNet resnet34(const PretrainedOptions& options = {});
nn::ResNet resnet50(const PretrainedOptions& options = {});
nn::ResNet resnet101(const PretrainedOptions& options = {});
nn::ResNet resnet152(const PretrainedOptions& options = {});

/// Renames the layers of networks for 32 x 32 images from other authors' names to rondo's
/// ("linear." to fc, ".shortcut." to downsample).
const io::KeyRules& cifar_key_rules();

/// The networks for 32 x 32 images with depth 20, 32, 44, 56 or 110. The type of the shortcuts is
/// that of the weights, or A for random weights; the number of classes is 10 for random weights.
/// `keys` is applied first, then cifar_key_rules().
nn::CifarResNet cifar_resnet(std::int64_t depth, const PretrainedOptions& options = {});

}  // namespace rondo::hub
