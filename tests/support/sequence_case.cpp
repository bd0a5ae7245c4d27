#include "support/sequence_case.h"

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "support/fill.h"
#include "support/golden.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {
namespace {

const Golden& golden() {
  static const Golden file("sequence.txt");
  return file;
}

void expect_close(const std::string& name, const Tensor& ours, DType dtype, std::int64_t length) {
  ASSERT_TRUE(ours.defined()) << name;
  ASSERT_TRUE(golden().has(name)) << name;
  EXPECT_EQ(ours.dtype(), dtype) << name;
  // Inputs and parameters are at most 1; sums of a few of them are at most 4.
  EXPECT_TRUE(all_close(ours.detach().to(Device::cpu()).to(f64), golden()[name],
                        tolerance(dtype, length, 4), tolerance(dtype, 16)))
      << name << " in " << dtype;
}

}  // namespace

void expect_sequence(const std::string& name, const std::vector<Dims>& shapes, DType dtype,
                     const std::function<Tensors(const Tensors&)>& f, nn::Module* module,
                     std::int64_t length) {
  std::vector<nn::NamedTensor> parameters;
  if (module != nullptr) {
    module->to(dtype);
    module->to(test_device());
    module->zero_grad();
    parameters = module->named_parameters();
    const NoGradGuard no_grad;
    for (std::uint32_t k = 0; k < parameters.size(); ++k)
      parameters[k].tensor.copy_(fill(parameters[k].tensor.shape(), k + 10));
  }
  Tensors xs;
  for (std::uint32_t i = 0; i < shapes.size(); ++i)
    xs.push_back(fill(shapes[i], i).to(dtype).to(test_device()).requires_grad_());
  const Tensors ys = f(xs);
  Tensors weights;
  for (std::uint32_t j = 0; j < ys.size(); ++j) {
    expect_close(name + ".y" + std::to_string(j), ys[j], dtype, length);
    weights.push_back(fill(ys[j].shape(), j + 100).to(dtype).to(test_device()));
  }
  EXPECT_FALSE(golden().has(name + ".y" + std::to_string(ys.size()))) << name;
  Tensors wanted = xs;
  for (const auto& p : parameters) wanted.push_back(p.tensor);
  const Tensors gradients = grad(ys, wanted, {.grad_outputs = weights});
  for (std::size_t i = 0; i < xs.size(); ++i)
    expect_close(name + ".dx" + std::to_string(i), gradients[i], dtype, length);
  EXPECT_FALSE(golden().has(name + ".dx" + std::to_string(xs.size()))) << name;
  for (std::size_t k = 0; k < parameters.size(); ++k)
    expect_close(name + ".d." + parameters[k].name, gradients[xs.size() + k], dtype, length);
  if (module != nullptr) module->to(Device::cpu());
}

std::vector<std::string> parameter_names(nn::Module& module) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : module.named_parameters())
    names.push_back(concat(name, tensor.shape()));
  return names;
}

}  // namespace rondo::test
