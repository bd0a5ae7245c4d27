#pragma once

#include "classifier.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "dist/collectives/communicator.h"
#include "nn/module.h"
#include "train/fit.h"

namespace examples {

/// Evaluates the model on the test set once more. Rank 0 writes --report, and throws IoError if
/// that fails. Collective.
void write_report_of(const Flags& flags, rondo::nn::Module& model,
                     const rondo::data::ImageDataset& test, const rondo::data::Transform& transform,
                     const rondo::train::FitResult& result, rondo::dist::Communicator& comm,
                     int threads);

}  // namespace examples
