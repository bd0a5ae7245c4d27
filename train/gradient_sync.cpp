#include "train/gradient_sync.h"

#include <omp.h>

#include <cmath>

#include "optim/clip.h"
#include "tensor/error.h"

namespace rondo::train {

Tensor GradientSync::clip_grad_norm(const Tensors& parameters, double max_norm) {
  if (std::isfinite(max_norm)) return optim::clip_grad_norm_(parameters, max_norm);
  Tensors gradients;
  for (const Tensor& parameter : parameters)
    if (const Tensor gradient = parameter.grad(); gradient.defined()) gradients.push_back(gradient);
  return optim::get_total_norm(gradients);
}

void GradientSync::replayed(const Tensor&, const std::function<std::string()>&) {
  throw Error("this GradientSync cannot be captured in a graph: it does not override replayed");
}

std::string GradientSync::differences(const io::Checkpoint& checkpoint,
                                      const dist::Communicator& comm) const {
  auto text = [](const char* what, auto then, auto now) {
    return then == now ? std::string()
                       : concat(" (", then, ' ', what, " then, ", now,
                                " now: the last digits will differ)");
  };
  const std::string ranks = text("ranks", checkpoint.world_size, std::int64_t{comm.world_size()});
  return !ranks.empty() ? ranks
                        : text("threads", checkpoint.threads, std::int64_t{omp_get_max_threads()});
}

void GradientSync::join(const std::function<void()>&) {
  throw Error("join needs gradients that DDP averages");
}

}  // namespace rondo::train
