#include "extras/quantization/cpu/isa/int8_table.h"

#include <string_view>

#include "tensor/cpu/isa/table.h"

namespace rondo::cpu {

const Int8Kernels& int8_kernels() {
  static const Int8Kernels* const chosen = [] {
    [[maybe_unused]] const std::string_view name = kernels().name;
#if defined(RONDO_HAS_AVX512)
    if (name == "avx512") return &isa::avx512::int8;
#endif
#if defined(RONDO_HAS_AVX2)
    if (name == "avx2") return &isa::avx2::int8;
#endif
#if defined(RONDO_HAS_SVE512)
    if (name == "sve512") return &isa::sve512::int8;
#endif
#if defined(RONDO_HAS_SVE256)
    if (name == "sve256") return &isa::sve256::int8;
#endif
    return &isa::generic::int8;
  }();
  return *chosen;
}

}  // namespace rondo::cpu
