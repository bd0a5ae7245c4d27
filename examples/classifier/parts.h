#pragma once
// What the flags of a classifier program stand for: data, transforms, network, weights, optimizer.

#include <memory>
#include <string>

#include "classifier.h"
#include "data/open.h"
#include "data/transforms.h"
#include "nn/models/models.h"
#include "optim/optimizer.h"

namespace examples {

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

/// Before the model is made: what a checkpoint, or a CIFAR ResNet's weights (pretrained.h), says of
/// its shortcuts becomes the flags', and of such weights also the model, the data set (cifar100
/// instead of cifar10) and, where the flags say nothing of it, the normalisation. Returns what the
/// weights are, for people; empty: a checkpoint, or nothing is known of them.
std::string follow_weights(const std::string& path, Flags& flags);

/// Puts the weights of a checkpoint, or of any file with the model's keys (io/weights.h), into the
/// model. To a checkpoint belong the normalisation that it was trained with, which becomes the
/// flags', and the data set, whose name is returned.
std::string load_weights(const std::string& path, rondo::nn::Module& model, Flags& flags);

std::unique_ptr<rondo::optim::Optimizer> make_optimizer(const Flags& flags,
                                                        rondo::nn::Module& model);

}  // namespace examples
