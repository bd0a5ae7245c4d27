#include "tensor/functors.h"

namespace rondo::functors {

void throw_not_on(const char* kind) {
  throw DTypeError(concat("this element-wise op is not defined on ", kind));
}

}  // namespace rondo::functors
