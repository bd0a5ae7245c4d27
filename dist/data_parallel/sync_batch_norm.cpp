#include "dist/data_parallel/sync_batch_norm.h"

#include "dist/collectives/device_collectives.h"
#include "dist/collectives/functional.h"
#include "nn/batch_norm.h"

namespace rondo::dist {

int convert_sync_batch_norm(nn::Module& model, std::shared_ptr<Communicator> comm) {
  if (comm->world_size() == 1) return 0;
  const bool has_nccl = comm->gpu() != nullptr && !comm->gpu()->is_by_way_of_host();
  const std::shared_ptr<Communicator> group = has_nccl ? comm : comm->duplicate();
  int converted = 0;
  for (auto& [name, module] : model.named_modules()) {
    auto* norm = dynamic_cast<nn::BatchNorm*>(module);
    if (norm == nullptr) continue;
    norm->sum_over_ranks = [group](const Tensor& x) { return all_reduce_sum(x, group); };
    ++converted;
  }
  comm->agree("layers of batch norm", std::to_string(converted));
  return converted;
}

}  // namespace rondo::dist
