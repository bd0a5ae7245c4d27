#pragma once
// Models with weights that others have trained, by name or from a file. As torch.hub, and the
// `weights` of torchvision's models.
//
//   nn::ResNet net = hub::resnet18({.pretrained = "resnet18", .num_classes = 10});
//   nn::freeze(net, "layer*");                    // nn/select.h
//   optim::SGD sgd(nn::parameters_like(net, "fc.*"), {.lr = 0.1});
//
// A name stands for a file on its authors' server, which is downloaded once into weights/ of
// $RONDO_DATA, the folder of all downloads (data::cache_dir), and compared with its SHA-256. Any
// other string is a path.

#include <string>
#include <vector>

#include "data/download.h"
#include "io/key_rules.h"
#include "nn/models/cifar_resnet.h"
#include "nn/models/resnet.h"

namespace rondo::hub {

struct PretrainedWeights {
  std::string name;       // "resnet18", "cifar10_resnet20"
  data::RemoteFile file;  // under the name that it has in the cache
  std::string entry;      // which dict of it, as for io::load_weights
};

/// What is known by name: torchvision's ResNets for ImageNet (BSD-3-Clause), chenyaofo's for CIFAR
/// (BSD-3-Clause), and what has been added.
std::vector<PretrainedWeights> known_weights();
/// Adds one, in place of what had its name.
void add_weights(PretrainedWeights weights);

/// How the file of these weights travels, for data::obtain. Throws Error naming the known ones for
/// another name.
data::RemoteDataset remote_weights(const std::string& name);

/// The tensors, with the names of the file. No file says by which mean and deviation its images
/// were normalised: its authors do, and a wrong choice costs many points of accuracy. Throws
/// IoError saying what is wrong with the file, the server or the checksum, and for what is neither
/// a known name nor a file, naming the known ones.
nn::StateDict load_pretrained(const std::string& name_or_file,
                              const data::DownloadOptions& options = {});

struct PretrainedOptions {
  /// A name or a file; empty: random weights.
  std::string pretrained = {};
  /// 0: as many as the weights have, 1,000 without any. Where the weights have another number, the
  /// last layer starts anew.
  std::int64_t num_classes = 0;
  /// Applied to the file's keys before they are compared with the model's.
  io::KeyRules keys = {.rename = {{"^module\\.", ""}}};
  data::DownloadOptions download = {};
};

/// torchvision's networks; the stem is the weights', without any ImageNet's. Throw as
/// load_pretrained does, and Error listing the keys that are missing, unexpected or misshapen.
nn::ResNet resnet18(const PretrainedOptions& options = {});
nn::ResNet resnet34(const PretrainedOptions& options = {});
nn::ResNet resnet50(const PretrainedOptions& options = {});
nn::ResNet resnet101(const PretrainedOptions& options = {});
nn::ResNet resnet152(const PretrainedOptions& options = {});

/// What others call the layers of the networks for 32 x 32 images, as rondo calls them ("linear."
/// is fc, ".shortcut." is downsample).
const io::KeyRules& cifar_key_rules();

/// The networks for 32 x 32 images of depth 20, 32, 44, 56 or 110; the form of the shortcuts is the
/// weights', without any A; 10 classes without any. After `keys`, cifar_key_rules() are
/// applied.
nn::CifarResNet cifar_resnet(std::int64_t depth, const PretrainedOptions& options = {});

}  // namespace rondo::hub
