#include "tensor/cpu/isa/table.h"

#include <cstdlib>
#include <string_view>

namespace rondo::cpu {
namespace {

const Kernels generic_kernels{"generic",
                              isa::generic::elementwise,
                              isa::generic::fold_f32,
                              isa::generic::fold_f64,
                              isa::generic::fold_i64,
                              isa::generic::batch_norm,
                              isa::generic::batch_norm_bf16,
                              isa::generic::softmax_f32,
                              isa::generic::layer_norm,
                              isa::generic::int8,
                              isa::generic::winograd,
                              isa::generic::packed,
                              isa::generic::matvec_f32};
#if defined(RONDO_HAS_AVX2)
const Kernels avx2_kernels{"avx2",
                           isa::avx2::elementwise,
                           isa::avx2::fold_f32,
                           isa::avx2::fold_f64,
                           isa::avx2::fold_i64,
                           isa::avx2::batch_norm,
                           isa::avx2::batch_norm_bf16,
                           isa::avx2::softmax_f32,
                           isa::avx2::layer_norm,
                           isa::avx2::int8,
                           isa::avx2::winograd,
                           isa::avx2::packed,
                           isa::avx2::matvec_f32};
#endif
#if defined(RONDO_HAS_AVX512)
const Kernels avx512_kernels{"avx512",
                             isa::avx512::elementwise,
                             isa::avx512::fold_f32,
                             isa::avx512::fold_f64,
                             isa::avx512::fold_i64,
                             isa::avx512::batch_norm,
                             isa::avx512::batch_norm_bf16,
                             isa::avx512::softmax_f32,
                             isa::avx512::layer_norm,
                             isa::avx512::int8,
                             isa::avx512::winograd,
                             isa::avx512::packed,
                             isa::avx512::matvec_f32};
#endif

const Kernels& choose() {
  const char* wish = std::getenv("RONDO_ISA");
  std::string_view limit = wish != nullptr ? wish : "avx512";
  require(limit == "generic" || limit == "avx2" || limit == "avx512", "RONDO_ISA=", limit,
          " is none of generic, avx2, avx512");
#if defined(RONDO_HAS_AVX512)
  if (limit == "avx512" && __builtin_cpu_supports("avx512f") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512dq"))
    return avx512_kernels;
#endif
#if defined(RONDO_HAS_AVX2)
  if (limit != "generic" && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    return avx2_kernels;
#endif
  return generic_kernels;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace rondo::cpu
