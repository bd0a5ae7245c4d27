#pragma once

#include <utility>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

/// A model in eval mode while this lives; then each module is in the mode that it had, so that a
/// frozen batch norm stays frozen.
class EvalMode {
 public:
  explicit EvalMode(Module& model) {
    for (const auto& [name, module] : model.named_modules())
      before_.emplace_back(module, module->is_training());
    model.eval();
  }
  ~EvalMode() {  // parents come first, and train() reaches their children, who then say otherwise
    for (auto [module, training] : before_) module->train(training);
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<std::pair<Module*, bool>> before_;
};

}  // namespace rondo::nn
