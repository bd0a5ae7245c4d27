#pragma once

#include "classifier.h"
#include "data/dataset.h"
#include "data/loader.h"
#include "dist/collectives/communicator.h"
#include "nn/module.h"
#include "train/fit.h"

namespace examples {

/// Asks the model about the test set once more, and writes --report on rank 0. Throws IoError when
/// that fails. Collective.
void write_report_of(const Flags& flags, rondo::nn::Module& model,
                     const rondo::data::ImageDataset& test, const rondo::data::Transform& transform,
                     const rondo::train::FitResult& result, rondo::dist::Communicator& comm,
                     int threads);

}  // namespace examples
