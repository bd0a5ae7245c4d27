#pragma once

#include <utility>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

/// Puts a model in eval mode while this object lives, then restores the mode of each module. So a
/// frozen batch norm stays frozen.
class EvalMode {
 public:
  explicit EvalMode(Module& model) {
    for (const auto& [name, module] : model.named_modules())
      before_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~EvalMode() {  // parents first: train() also sets their children, which then get their own modes
    for (auto [module, training] : before_) module->train(training);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};

}  // namespace rondo::nn
