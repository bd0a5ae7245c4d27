#include "tensor/cpu/isa/table.h"

#if defined(__aarch64__)
#include <sys/prctl.h>
#endif

#include <cstdlib>
#include <string>
#include <string_view>

namespace rondo::cpu {
namespace {

struct InstructionSet {
  Kernels kernels;
  bool (*is_there)();
};

#define RONDO_KERNELS(set)                                                                  \
  {                                                                                         \
    .name = #set, .elementwise = isa::set::elementwise, .reduce_f32 = isa::set::reduce_f32, \
    .reduce_f64 = isa::set::reduce_f64, .reduce_i64 = isa::set::reduce_i64,                 \
    .batch_norm = isa::set::batch_norm, .batch_norm_bf16 = isa::set::batch_norm_bf16,       \
    .softmax = isa::set::softmax_lines, .layer_norm = isa::set::layer_norm,                 \
    .layer_norm_bf16 = isa::set::layer_norm_bf16, .normals = isa::set::normals_f32,         \
    .lstm = isa::set::lstm, .winograd = isa::set::winograd, .packed = isa::set::packed,     \
    .attention = isa::set::attention, .attention_bf16 = isa::set::attention_bf16,           \
    .matvec = isa::set::matvec_f32, .depthwise_weight_row = isa::set::depthwise_weight_row  \
  }

#if defined(__aarch64__)
/// Whether the SVE registers have exactly this many bits, for which the kernels are compiled.
template <int bits>
bool has_sve() {
  const int length = prctl(PR_SVE_GET_VL);
  return length > 0 && (length & PR_SVE_VL_LEN_MASK) * 8 == bits;
}
#endif

const Kernels& choose() {
  // In ascending order of preference.
  static const InstructionSet sets[] = {
    {RONDO_KERNELS(generic), [] { return true; }},
#if defined(RONDO_HAS_AVX2)
    {RONDO_KERNELS(avx2),
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
#if defined(RONDO_HAS_AVX512)
    {RONDO_KERNELS(avx512),
     [] {
       return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
              __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
     }},
#endif
#if defined(RONDO_HAS_SVE256)
    {RONDO_KERNELS(sve256), has_sve<256>},
#endif
#if defined(RONDO_HAS_SVE512)
    {RONDO_KERNELS(sve512), has_sve<512>},
#endif
  };
  const char* wish = std::getenv("RONDO_ISA");
  const Kernels* chosen = nullptr;
  bool is_allowed = true;
  std::string names;
  for (const InstructionSet& set : sets) {
    const std::string_view name = set.kernels.name;
    if (is_allowed && set.is_there()) chosen = &set.kernels;
    if (wish != nullptr && name == wish) is_allowed = false;
    names += concat(names.empty() ? "" : ", ", name);
  }
  // Not require: the error would begin with the op that happened to run first.
  if (wish != nullptr && is_allowed)
    throw Error(concat("RONDO_ISA=", wish, " is not one of ", names));
  static Kernels found = *chosen;
#if defined(RONDO_HAS_AVX512)
  if (!__builtin_cpu_supports("avx512bf16")) found.attention_bf16 = {};
#endif
  return found;
}

}  // namespace

const Kernels& kernels() {
  static const Kernels& chosen = choose();
  return chosen;
}

}  // namespace rondo::cpu
