#pragma once
// Recognises weights of CIFAR ResNets from other projects: which network they belong to, by the
// names and shapes in their state dict.

#include <optional>
#include <string>
#include <vector>

#include "nn/models/models.h"

namespace examples {

struct Pretrained {
  rondo::nn::StateDict state;  // with rondo's names
  std::string model;           // "resnet20"
  rondo::nn::Shortcut shortcut = rondo::nn::Shortcut::a;
  std::int64_t classes = 10;
  std::string family;            // the project whose layer names these are
  std::vector<float> mean, std;  // how that project normalises images; empty: unknown
};

/// A mean and a deviation to normalise images, and who uses them.
struct Normalisation {
  const char *mean, *std, *used_by;
};
/// The normalisations that are known to be used with the networks of recognise(). A file of weights
/// does not name its normalisation. read_weights guesses it from the layers' names, but files with
/// the same names may use another one.
const std::vector<Normalisation>& usual_normalisations();

struct Recognition {
  std::optional<Pretrained> found = {};
  std::string lacks = {};  // the reason if `found` is empty, such as "it has no fc.weight"
};

/// Recognises the state dict of a CIFAR ResNet (nn/models/cifar_resnet.h) with 10 or 100 classes.
///
/// Keys may have a prefix, such as "module." of PyTorch's DataParallel, or "model.". It is read off
/// the key that ends in conv1.weight. Families:
///
///   last layer  shortcuts      project
///   linear      a, or shortcut.  github.com/akamaster/pytorch_resnet_cifar10
///   fc          downsample.      github.com/chenyaofo/pytorch-cifar-models
///   fc          a                rondo
Recognition recognise(const rondo::nn::StateDict& state);

}  // namespace examples
