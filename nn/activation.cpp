// PReLU (see activation.h).

#include "nn/activation.h"

#include "tensor/creation.h"

namespace rondo::nn {

PReLU::PReLU(std::int64_t num_parameters, double init) {
  require<ShapeError>(num_parameters > 0, "PReLU: ", num_parameters,
                      " parameters, but there must be at least 1");
  weight = full({num_parameters}, init).requires_grad_();
}

}  // namespace rondo::nn
