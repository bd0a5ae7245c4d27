// Copies of modules. A module's own copy constructor copies handles of tensors and pointers to
// children. These functions replace what a copy would share with the original, or throw if they
// cannot.

#include <unordered_map>
#include <unordered_set>

#include "autograd/grad_mode.h"
#include "nn/module.h"
#include "nn/walk.h"

namespace rondo::nn::detail {

OwnedModule::OwnedModule(const OwnedModule& other)
    : module_(other.module_ ? other.copy_(*other.module_) : nullptr), copy_(other.copy_) {}
OwnedModule& OwnedModule::operator=(OwnedModule other) noexcept {
  std::swap(module_, other.module_);
  std::swap(copy_, other.copy_);
  return *this;
}
OwnedModule::~OwnedModule() = default;

namespace {

/// Replaces each child that a shared_ptr holds by a copy. If several pointers hold one child, they
/// share one copy.
struct OwnChildren final : Visitor {
  explicit OwnChildren(Module& module) { module.visit(*this); }
  void parameter(std::string_view, Tensor&) override {}
  void buffer(std::string_view, Tensor&) override {}
  void child(std::string_view, Module& module) override {
    if (seen_.insert(&module.self()).second) module.self().visit(*this);
  }
  std::shared_ptr<Module> instead_of(std::string_view name, Module& module, Copy copy) override {
    if (own_.contains(&module)) return nullptr;
    std::shared_ptr<Module>& made = copies_[&module];
    if (made == nullptr) made = copy(module);
    require(made != nullptr, "copy of a model: \"", name, "\" is a ", type_name(module),
            ", which a shared_ptr to another type holds, so it cannot be copied; hold it as "
            "nn::AnyModule or by a shared_ptr to its own type");
    own_.insert(made.get());
    return made;
  }

 private:
  std::unordered_map<const Module*, std::shared_ptr<Module>> copies_;
  std::unordered_set<const Module*> own_, seen_;
};

/// The modules and tensors that a module and all modules below it show. If `others` is given,
/// throws if one of them is also in `others`.
struct ShownPlaces final : Visitor {
  explicit ShownPlaces(Module& module, const ShownPlaces* others = nullptr) : others_(others) {
    module.visit(*this);
  }
  void parameter(std::string_view name, Tensor& tensor) override { add(name, &tensor, "tensor"); }
  void buffer(std::string_view name, Tensor& tensor) override { add(name, &tensor, "tensor"); }
  void child(std::string_view name, Module& module) override {
    if (!add(name, &module, "module")) return;
    module.self().visit(*this);
  }

 private:
  bool add(std::string_view name, const void* place, const char* what) {
    require(others_ == nullptr || !others_->seen_.contains(place), "copy of a model: the ", what,
            " \"", name,
            "\" is behind a pointer or a reference, which a copy shares with the original; hold it "
            "by value, or a module by a shared_ptr that visit shows itself: v.child(\"",
            name, "\", pointer)");
    return seen_.insert(place).second;
  }

  const ShownPlaces* others_;
  std::unordered_set<const void*> seen_;
};

}  // namespace

void require_whole(const Module& module, const std::type_info& M) {
  require(typeid(module) == M, "copy of a ", type_name(module), " as a ", type_name(M),
          ": the copy would lose what the derived class adds; copy it where its own type is known");
}

void separate(const Module& original, Module& copy) {
  const OwnChildren separated(copy.self());
  const ShownPlaces originals(const_cast<Module&>(original).self());
  const ShownPlaces copies(copy.self(), &originals);
}

void unshare(const Module& original, Module& module) {
  separate(original, module);
  NoGradGuard no_grad;
  std::unordered_map<const TensorImpl*, Tensor> copies;
  std::vector<Tensor> originals;  // kept alive, so that no address is reused
  walk(module.self(), [&](const std::string&, Module&, Members& members) {
    for (auto* tensors : {&members.parameters, &members.buffers}) {
      for (auto& [name, tensor] : *tensors) {
        originals.push_back(*tensor);
        Tensor& copy = copies[&tensor->impl()];
        if (!copy.defined()) {
          copy = tensor->detach().clone();
          if (is_floating(copy.dtype())) copy.requires_grad_(tensor->requires_grad());
        }
        *tensor = copy;
      }
    }
  });
}

}  // namespace rondo::nn::detail
