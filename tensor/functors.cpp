#include "tensor/functors.h"

namespace rondo::functors {

void throw_not_on(const char* kind) {
  detail::fail<DTypeError>({"this element-wise op is not defined on ", kind});
}

}  // namespace rondo::functors
