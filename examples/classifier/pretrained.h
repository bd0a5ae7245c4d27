#pragma once
// Weights that others have trained: what a state dict of a CIFAR ResNet says of its network, under
// the names that its authors gave to the layers.

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
  std::string family;            // who calls the layers so
  std::vector<float> mean, std;  // by which that family normalises images; empty: unknown
};

/// Values by which images were normalised, and where that is usual.
struct Normalisation {
  const char *mean, *std, *used_by;
};
/// Those that are known to have been used with the networks of recognise(). A file of weights does
/// not say which, and its layers' names, from which one is guessed, are those of other files, too.
const std::vector<Normalisation>& usual_normalisations();

struct Recognition {
  std::optional<Pretrained> found = {};
  std::string lacks = {};  // where nothing was found: "it knows 50 classes, not 10 or 100"
};

/// What `state` is, if it is a CIFAR ResNet's (nn/models/cifar_resnet.h) of 10 or 100 classes.
///
/// Keys may have a prefix ("module." of PyTorch's DataParallel, "model."): what stands before
/// conv1.weight. Families:
///
///   last layer  shortcuts      from
///   linear      a, or shortcut.  github.com/akamaster/pytorch_resnet_cifar10
///   fc          downsample.      github.com/chenyaofo/pytorch-cifar-models
///   fc          a                rondo
Recognition recognise(const rondo::nn::StateDict& state);

}  // namespace examples
