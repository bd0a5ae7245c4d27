// Settings by the environment, in one process in which nothing was computed before.

#include <cstdlib>

#include "support/errors.h"
#include "support/support.h"
#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/cpu/packed_matmul.h"

namespace rondo {
namespace {

TEST(Environment, AWrongWishIsAnErrorThatCanBeCaughtAndMended) {
  setenv("RONDO_ISA", "sse9", 1);
  setenv("RONDO_CONV", "implicit_gemm,fft", 1);
  setenv("RONDO_PACKED_MATMUL", "on", 1);
  // Large enough for several threads, out of which an exception could not be thrown. The settings
  // do not affect this op.
  const Dims large{1 << 20};
  EXPECT_ERROR(ones(large), Error, "RONDO_ISA=sse9 is not one of generic");
  setenv("RONDO_ISA", "generic", 1);
  EXPECT_ERROR(ones(large), Error,
               "RONDO_CONV: unknown convolution algorithm \"fft\"; use any of winograd_groups, "
               "winograd_2x2, few_pixels, winograd, one_pixel, depthwise, implicit_gemm, onednn");
  setenv("RONDO_CONV", "implicit_gemm", 1);
  EXPECT_ERROR(ones(large), Error, "RONDO_PACKED_MATMUL=on is neither 0 nor 1");
  setenv("RONDO_PACKED_MATMUL", "1", 1);
  EXPECT_EQ(ones(large).to_vector().back(), 1);
  EXPECT_STREQ(cpu::kernels().name, "generic");
  ASSERT_EQ(cpu::conv_algorithms().size(), 2);  // with the generic kernels, too
  EXPECT_EQ(cpu::conv_algorithms()[0], &cpu::conv::implicit_gemm);
  EXPECT_EQ(cpu::conv_algorithms()[1], &cpu::conv::onednn);
  EXPECT_TRUE(cpu::packed_matmul::enabled());
}

}  // namespace
}  // namespace rondo
