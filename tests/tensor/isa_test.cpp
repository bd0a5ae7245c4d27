// Choices by the environment: one process, in which nothing was computed before.

#include <cstdlib>

#include "support/errors.h"
#include "support/support.h"
#include "tensor/cpu/implicit_gemm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/packed_matmul.h"
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

TEST(ImplicitGemm, CanBeAskedForByTheEnvironment) {
  setenv("RONDO_IMPLICIT_GEMM", "2", 1);
  EXPECT_ERROR(cpu::implicit_gemm::enabled(), Error, "RONDO_IMPLICIT_GEMM=2 is neither 0 nor 1");
  setenv("RONDO_IMPLICIT_GEMM", "1", 1);
  EXPECT_TRUE(cpu::implicit_gemm::enabled());  // with the generic kernels, too
}

TEST(PackedMatmul, CanBeAskedForByTheEnvironment) {
  setenv("RONDO_PACKED_MATMUL", "on", 1);
  EXPECT_ERROR(cpu::packed_matmul::enabled(), Error, "RONDO_PACKED_MATMUL=on is neither 0 nor 1");
  setenv("RONDO_PACKED_MATMUL", "1", 1);
  EXPECT_TRUE(cpu::packed_matmul::enabled());  // with the generic kernels, too
}

}  // namespace
}  // namespace rondo
