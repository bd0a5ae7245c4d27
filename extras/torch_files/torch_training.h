#pragma once
// Checkpoints that PyTorch programs write and read: the weights, the optimizer and the schedule.
//
//   io::save_torch_training("run.pth", {&net, &sgd, &schedule}, {{"epoch", std::int64_t{3}}});
//
// is what Python saves and loads as
//
//   torch.save({"model": net.state_dict(), "optimizer": sgd.state_dict(),
//               "scheduler": schedule.state_dict(), "epoch": 3}, "run.pth")
//   c = torch.load("run.pth")
//   net.load_state_dict(c["model"]), sgd.load_state_dict(c["optimizer"]), …
//
// and training continues with the same numbers, up to rounding. rondo's own checkpoints
// (io/checkpoint.h) also resume random generators and the position in the data.

#include <string>

#include "io/checkpoint.h"
#include "nn/module.h"
#include "optim/lr_schedule.h"
#include "optim/optimizer.h"

namespace rondo::io {

/// What to save or load; null: not this.
struct TorchTraining {
  nn::Module* model = nullptr;
  optim::Optimizer* optimizer = nullptr;
  optim::LRSchedule* schedule = nullptr;
};

/// Writes a dict with the entries "model", "optimizer", "scheduler" and `metadata`, atomically.
/// Works for all optimizers whose state and options have PyTorch's names, and for the schedules
/// StepLR, MultiStepLR, ExponentialLR, ConstantLR, PolynomialLR, LinearLR, CosineAnnealingLR,
/// CosineAnnealingWarmRestarts, LambdaLR, MultiplicativeLR (of the last two, the counter) and
/// OneCycleLR, which needs the optimizer, too: PyTorch keeps its rates there. In Python, load the
/// optimizer after the schedule was made, because making it resets the rate. Throws Error for
/// another schedule and IoError if the file cannot be written.
void save_torch_training(const std::string& path, const TorchTraining& training,
                         const Metadata& metadata = {});

/// Loads what is not null, also from entries "optimizer_state_dict", "lr_scheduler",
/// "scheduler_state_dict" and "lr_scheduler_state_dict", and for the model from those that
/// load_torch tries. The optimizer and the schedule must be of the types that the file has. Returns
/// the numbers and texts next to them. Throws IoError naming the file if it is damaged or an entry
/// or an option is missing, and the errors of load_state_dict; the model is loaded last, and the
/// optimizer last but one, so that an invalid file changes as little as possible.
Metadata load_torch_training(const std::string& path, const TorchTraining& training);

}  // namespace rondo::io
