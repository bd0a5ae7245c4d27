#pragma once

#include <set>
#include <vector>

#include "nn/module.h"

namespace rondo::nn {

/// A model and all its modules in eval mode for a scope; at its end each is as it was.
class EvalMode {
 public:
  explicit EvalMode(Module& model) {
    for (const auto& [name, module] : model.named_modules())
      if (module->is_training()) trained_.push_back(module);
    model.eval();
  }
  // Children before parents: train(true) reaches below, so whoever was in eval mode beneath a
  // training parent must be told so again.
  ~EvalMode() {
    std::set<Module*> wanted(trained_.begin(), trained_.end());
    for (Module* module : trained_) {
      module->train(true);
      for (const auto& [name, below] : module->named_modules())
        if (!wanted.contains(below)) below->train(false);
    }
  }
  EvalMode(const EvalMode&) = delete;
  EvalMode& operator=(const EvalMode&) = delete;

 private:
  std::vector<Module*> trained_;
};

}  // namespace rondo::nn
