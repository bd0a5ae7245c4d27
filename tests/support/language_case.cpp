#include "support/language_case.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/grad_mode.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "nn/generate.h"
#include "support/fill.h"
#include "support/support.h"
#include "support/test_device.h"

namespace rondo::test {

const Golden& language_golden() {
  static const Golden file("language.txt");
  return file;
}

Tensor language_tokens() { return (fill({2, 7}, 1) * 20 + 20).to(i64).to(test_device()); }

void fill_language_model(nn::Module& model, DType dtype) {
  const NoGradGuard no_grad;
  model.to(dtype);
  model.to(test_device());
  std::uint32_t k = 10;
  for (auto& [key, p] : model.named_parameters()) {
    const bool is_vector = p.dim() == 1;
    p.copy_(
        fill(p.shape(), k++, is_vector ? 0.25 : 0.5, is_vector && key.ends_with("weight") ? 1 : 0));
  }
}

void expect_language(const std::string& name, const Tensor& x, double tolerance) {
  ASSERT_TRUE(language_golden().has(name)) << name;
  const Tensor theirs = language_golden()[name];
  const double scale = std::max(1.0, theirs.abs().max().item<double>());
  EXPECT_TRUE(all_close(x.detach().to(Device::cpu()).to(f64), theirs, tolerance * scale))
      << name << " in " << x.dtype();
}

void expect_language_gradients(const std::string& name, nn::Module& model, double tolerance) {
  std::uint32_t k = 5000;
  for (const auto& [key, p] : model.named_parameters()) {
    const Tensor dx = p.grad().detach().to(Device::cpu()).to(f64);
    expect_language(name + ".d." + key, stack({norm(dx), (dx * fill(dx.shape(), k++)).sum()}),
                    tolerance);
  }
}

void expect_language_model(const std::string& name, nn::CausalModule& model) {
  const Tensor greedy = language_golden()[name + ".greedy"];
  model.eval();
  for (DType dtype : {f64, f32}) {
    fill_language_model(model, dtype);
    model.zero_grad();
    const double rounding = tolerance(dtype, 500);
    const Tensor logits = model(language_tokens());
    EXPECT_EQ(logits.dtype(), dtype);
    expect_language(name + ".logits", logits, rounding);
    logits.backward(fill(logits.shape(), 100).to(dtype).to(test_device()));
    expect_language_gradients(name, model, 20 * rounding);
    for (const bool use_cache : {true, false}) {
      const Tensor text =
          nn::generate(model, language_tokens().narrow(1, 0, 4),
                       {.max_new_tokens = 12, .temperature = 0, .use_cache = use_cache});
      EXPECT_TRUE(identical(text.to(Device::cpu()), greedy)) << name << " writes " << text;
    }
  }
  model.to(Device::cpu());
}

}  // namespace rondo::test
