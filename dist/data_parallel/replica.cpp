#include "dist/data_parallel/replica.h"

#include <map>

namespace rondo::dist {
namespace {

class Substitute final : public nn::Visitor {
 public:
  Substitute(const ModuleTensors& originals, const ModuleTensors& replicas) {
    auto add = [&](const Tensors& from, const Tensors& to) {
      for (std::size_t i = 0; i < from.size(); ++i) replica_[from[i].impl_ptr().get()] = to[i];
    };
    add(originals.parameters, replicas.parameters);
    add(originals.buffers, replicas.buffers);
  }

  void parameter(std::string_view, Tensor& x) override {
    const bool is_frozen = x.defined() && !x.requires_grad();
    replace(x);
    if (is_frozen) x.requires_grad_(false);  // so that visit does not make it trainable
  }
  void buffer(std::string_view, Tensor& x) override { replace(x); }
  void child(std::string_view, nn::Module& module) override { module.self().visit(*this); }

 private:
  void replace(Tensor& x) {
    if (!x.defined()) return;
    const auto found = replica_.find(x.impl_ptr().get());
    if (found != replica_.end())
      x = found->second;  // otherwise replaced already: the module has several names
  }

  std::map<const TensorImpl*, Tensor> replica_;
};

}  // namespace

ModuleTensors members_of(nn::Module& module) {
  ModuleTensors members;
  members.parameters = module.parameters();
  for (const auto& [name, buffer] : module.named_buffers()) members.buffers.push_back(buffer);
  return members;
}

void replace_members(const nn::Module& module, nn::Module& replica, const ModuleTensors& members,
                     const ModuleTensors& replicas) {
  nn::detail::separate(module, replica);
  Substitute substitute(members, replicas);
  replica.self().visit(substitute);
}

}  // namespace rondo::dist
