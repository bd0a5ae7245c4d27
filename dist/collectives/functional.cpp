#include "dist/collectives/functional.h"

#include "autograd/record.h"

namespace rondo::dist {
namespace {

struct AllReduceSumBackward final : Node {
  std::shared_ptr<Communicator> comm;
  explicit AllReduceSumBackward(std::shared_ptr<Communicator> comm) : comm(std::move(comm)) {}
  const char* name() const override { return "all_reduce_sum"; }
  Tensors backward(const Tensors& dy) override { return {all_reduce_sum(dy[0], comm)}; }
};

}  // namespace

Tensor all_reduce_sum(const Tensor& x, const std::shared_ptr<Communicator>& comm) {
  const Tensor y = no_grad([&] { return x.detach().contiguous().clone(); });
  comm->all_reduce(y);
  return record<AllReduceSumBackward>({x}, y, comm);
}

}  // namespace rondo::dist
