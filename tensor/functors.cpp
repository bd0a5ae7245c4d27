#include "tensor/functors.h"

namespace rondo::functors {

void throw_not_on_integers() {
  throw DTypeError("this element-wise op is not defined on integers");
}

}  // namespace rondo::functors
