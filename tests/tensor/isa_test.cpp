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

TEST(Environment, AWrongWishIsAnErrorThatCanBeCaughtAndMended) {
  setenv("RONDO_ISA", "sse9", 1);
  setenv("RONDO_WINOGRAD", "no", 1);
  setenv("RONDO_IMPLICIT_GEMM", "2", 1);
  setenv("RONDO_PACKED_MATMUL", "on", 1);
  // Large enough to be computed by several threads, out of which an exception could not come; and
  // nothing that the switches are for.
  const Dims large{1 << 20};
  EXPECT_ERROR(ones(large), Error, "RONDO_ISA=sse9 is none of generic");
  setenv("RONDO_ISA", "generic", 1);
  EXPECT_ERROR(ones(large), Error, "RONDO_WINOGRAD=no is neither 0 nor 1");
  setenv("RONDO_WINOGRAD", "0", 1);
  EXPECT_ERROR(ones(large), Error, "RONDO_IMPLICIT_GEMM=2 is neither 0 nor 1");
  setenv("RONDO_IMPLICIT_GEMM", "1", 1);
  EXPECT_ERROR(ones(large), Error, "RONDO_PACKED_MATMUL=on is neither 0 nor 1");
  setenv("RONDO_PACKED_MATMUL", "1", 1);
  EXPECT_EQ(ones(large).to_vector().back(), 1);
  EXPECT_STREQ(cpu::kernels().name, "generic");
  EXPECT_FALSE(cpu::winograd::enabled());
  EXPECT_TRUE(cpu::implicit_gemm::enabled());  // with the generic kernels, too
  EXPECT_TRUE(cpu::packed_matmul::enabled());
}

}  // namespace
}  // namespace rondo
