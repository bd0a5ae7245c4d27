#pragma once
// Makes the parts that the flags describe: data, transforms, network, weights, optimizer.

#include <memory>
#include <string>

#include "classifier.h"
#include "data/open.h"
#include "data/transforms.h"
#include "io/checkpoint.h"
#include "nn/models/models.h"
#include "optim/optimizer.h"

namespace examples {

/// Whether the program trains. Otherwise it only evaluates, exports or queries an existing model.
bool trains(const Flags& flags);

struct Datasets {
  std::shared_ptr<rondo::data::ImageDataset> train,
      test;  // train is null unless the program trains
};

/// Opens the data sets, and downloads them if necessary. Throws IoError if they cannot be found or
/// downloaded.
Datasets open_data(const Flags& flags);

/// Converts bytes to normalised floats. With `training` and --augment also crops and flips at
/// random.
rondo::data::ImageTransform make_transform(const Flags& flags,
                                           const rondo::data::ImageDataset& images, bool training);

rondo::nn::AnyModule make_network(const Flags& flags, const rondo::data::ImageDataset& images);

/// A checkpoint, or any file of weights (io/weights.h).
struct Weights {
  std::string path;
  rondo::nn::StateDict state;  // with rondo's names
  std::string dataset;         // of a checkpoint: the data set it was trained on
  std::string description;     // of a pretrained CIFAR ResNet: one line to print
  std::string lacks;           // of other files: why they are not such a ResNet
};

/// Reads the weights and adjusts `flags` to them. Call it before make_network.
///
/// - A checkpoint: sets --mean and --std to its normalisation, unless they were given. With
///   `decides` also sets --shortcut.
/// - A pretrained CIFAR ResNet (pretrained.h), only with `decides`: sets --model, --shortcut, the
///   data set (cifar100 instead of cifar10 for 100 classes) and, unless they were given, --mean and
///   --std.
Weights read_weights(const std::string& path, Flags& flags, bool decides);
/// Loads the weights into the model. Throws Error naming the file and the key that does not fit.
void load_weights(const Weights& weights, rondo::nn::Module& model);

/// Writes the model to --export-onnx, for images of this shape. The file's metadata has the mean,
/// the deviation and the class names, which its users need.
void export_model(const Flags& flags, rondo::nn::Module& model,
                  const rondo::data::ImageDataset& images);

std::unique_ptr<rondo::optim::Optimizer> make_optimizer(const Flags& flags,
                                                        rondo::nn::Module& model);

/// The settings that a resumed run must share: `basic`, and those of the rarer flags that do not
/// have their default. A checkpoint from before a flag existed can therefore be resumed.
rondo::io::Metadata shared_config(const Flags& flags, rondo::io::Metadata basic);

}  // namespace examples
