#include "support/golden_cases.h"

#include <gtest/gtest.h>

#include "autograd/engine.h"
#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "support/golden.h"
#include "support/support.h"
#include "tensor/creation.h"

namespace rondo::test {

void expect_golden_cases(const char* file, const GoldenCases& cases) {
  const Golden golden(file);
  for (const auto& [name, f] : cases) {
    SCOPED_TRACE(name);
    Tensors xs;
    while (golden.has(concat(name, '.', xs.size())))
      xs.push_back(golden[concat(name, '.', xs.size())].clone().requires_grad_());
    ASSERT_FALSE(xs.empty());
    const Tensor y = f(xs), wanted = golden[concat(name, ".y")];
    ASSERT_EQ(y.shape(), wanted.shape());
    EXPECT_TRUE(all_close(y, wanted, 1e-12));
    const Tensor weights = ((arange(y.numel(), {.dtype = f64}) % 7 - 3) / 2).reshape(y.shape());
    const Tensors gradients = grad({sum(y * weights)}, xs, {.allow_unused = true});
    for (std::size_t i = 0; i < xs.size(); ++i) {
      const Tensor found = gradients[i].defined() ? gradients[i] : zeros_like(xs[i]);
      EXPECT_TRUE(all_close(found, golden[concat(name, ".d", i)], 1e-11)) << i;
    }
  }
}

}  // namespace rondo::test
