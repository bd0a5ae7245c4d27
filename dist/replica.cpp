#include "dist/replica.h"

#include <map>
#include <set>

namespace rondo::dist {
namespace {

class Collect final : public nn::Visitor {
 public:
  Members members;

  void parameter(std::string_view, Tensor& x) override {
    if (x.defined() && seen_.insert(x.impl_ptr().get()).second) members.parameters.push_back(x);
  }
  void buffer(std::string_view, Tensor& x) override {
    if (x.defined() && seen_.insert(x.impl_ptr().get()).second) members.buffers.push_back(x);
  }
  void child(std::string_view, nn::Module& module) override { module.visit(*this); }

 private:
  std::set<const TensorImpl*> seen_;
};

class Substitute final : public nn::Visitor {
 public:
  Substitute(const Members& originals, const Members& replicas) {
    auto add = [&](const Tensors& from, const Tensors& to) {
      for (std::size_t i = 0; i < from.size(); ++i) replica_[from[i].impl_ptr().get()] = to[i];
    };
    add(originals.parameters, replicas.parameters);
    add(originals.buffers, replicas.buffers);
  }

  void parameter(std::string_view, Tensor& x) override {
    if (x.defined()) x = replica_.at(x.impl_ptr().get());
  }
  void buffer(std::string_view, Tensor& x) override {
    if (x.defined()) x = replica_.at(x.impl_ptr().get());
  }
  void child(std::string_view, nn::Module& module) override { module.visit(*this); }

 private:
  std::map<const TensorImpl*, Tensor> replica_;
};

}  // namespace

Members members_of(nn::Module& module) {
  Collect collect;
  module.visit(collect);
  return std::move(collect.members);
}

nn::AnyModule replica_of(const nn::AnyModule& module, const Members& members,
                         const Members& replicas) {
  nn::AnyModule replica = module;  // shares its tensors with the original
  Substitute substitute(members, replicas);
  replica.visit(substitute);
  return replica;
}

}  // namespace rondo::dist
