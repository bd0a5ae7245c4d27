// Choices by the environment: one process, in which nothing was computed before.

#include <cstdlib>

#include "support/errors.h"
#include "support/support.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/winograd.h"

namespace rondo {
namespace {

TEST(Isa, AWrongWishIsAnErrorThatCanBeCaughtAndMended) {
  setenv("RONDO_ISA", "sse9", 1);
  // Large enough to be computed by several threads, out of which an exception could not come.
  const Dims large{1 << 20};
  EXPECT_ERROR(ones(large), Error, "RONDO_ISA=sse9 is none of generic, avx2, avx512");
  setenv("RONDO_ISA", "generic", 1);
  EXPECT_EQ(ones(large).to_vector().back(), 1);
  EXPECT_STREQ(cpu::kernels().name, "generic");
}

TEST(Winograd, CanBeSwitchedOffByTheEnvironment) {
  setenv("RONDO_WINOGRAD", "no", 1);
  EXPECT_ERROR(cpu::winograd::enabled(), Error, "RONDO_WINOGRAD=no is neither 0 nor 1");
  setenv("RONDO_WINOGRAD", "0", 1);
  EXPECT_FALSE(cpu::winograd::enabled());
}

}  // namespace
}  // namespace rondo
