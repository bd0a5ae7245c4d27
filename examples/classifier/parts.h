#pragma once
// What the flags of a classifier program stand for: data, transforms, network, weights, optimizer.

#include <memory>
#include <string>

#include "classifier.h"
#include "data/open.h"
#include "data/transforms.h"
#include "io/checkpoint.h"
#include "nn/models/models.h"
#include "optim/optimizer.h"

namespace examples {

/// Whether the program trains, or only asks a model that is there.
bool trains(const Flags& flags);

struct Datasets {
  std::shared_ptr<rondo::data::ImageDataset> train, test;  // train is null where it is not needed
};

/// Throws IoError where they are nowhere to be had.
Datasets open_data(const Flags& flags);

/// Bytes to normalised floats, with random crops and flips where the flags ask for them in
/// training.
rondo::data::ImageTransform make_transform(const Flags& flags,
                                           const rondo::data::ImageDataset& images, bool training);

rondo::nn::AnyModule make_network(const Flags& flags, const rondo::data::ImageDataset& images);

/// A checkpoint, or any file of weights (io/weights.h).
struct Weights {
  std::string path;
  rondo::nn::StateDict state;  // with the names that rondo's models have
  std::string dataset;         // that a checkpoint was trained on; else empty
  std::string description;     // of a CIFAR ResNet that others have trained, for people; else empty
  std::string lacks;           // why a file of weights is no such ResNet
};

/// Reads them, before the model is made. To a checkpoint belongs the normalisation that it was
/// trained with, which becomes the flags'. With `decides`, what the file says of its shortcuts
/// does, too, and of a CIFAR ResNet that others have trained (pretrained.h) also the model, the
/// data set (cifar100 instead of cifar10) and, where the flags say nothing of it, the
/// normalisation.
Weights read_weights(const std::string& path, Flags& flags, bool decides);
/// Puts them into the model. Throws Error naming the file and what does not fit.
void load_weights(const Weights& weights, rondo::nn::Module& model);

/// Writes the model to --export-onnx, for images like these, and beside it what a user must know of
/// them: mean, deviation and the names of the classes.
void export_model(const Flags& flags, rondo::nn::Module& model,
                  const rondo::data::ImageDataset& images);

std::unique_ptr<rondo::optim::Optimizer> make_optimizer(const Flags& flags,
                                                        rondo::nn::Module& model);

/// What a resumed run must share: `basic`, and of the rarer flags those that are not as they come,
/// so that a run can go on that was begun before a flag was there.
rondo::io::Metadata shared_config(const Flags& flags, rondo::io::Metadata basic);

}  // namespace examples
