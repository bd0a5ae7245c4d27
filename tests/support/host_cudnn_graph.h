#pragma once
// Graphs of the test's own cuDNN, of batch norms, products, reductions and pointwise operations:
// stored like in the library, and computed operation by operation in double.

#include <functional>
#include <map>
#include <vector>

#include "support/host_cudnn_node.h"

namespace rondo::test {

class HostGraph {
 public:
  /// Whether a graph is of this kind; the others are convolutions.
  static bool is_one(const Node& graph);
  explicit HostGraph(const Node& graph);

  /// The work on these pointers, by name. Numbers on the host are read at once. Empty if a tensor
  /// in memory has no pointer.
  std::function<void()> with(const std::vector<std::int64_t>& uids,
                             const std::vector<void*>& pointers) const;

 private:
  struct Operand {
    std::int64_t uid = 0;
    cudnnDataType_t type{};
    std::vector<std::int64_t> dims, strides;
    bool is_between = false, is_number = false;
  };
  struct Operation {
    cudnnBackendDescriptorType_t type;
    int mode = 0;  // of a pointwise operation or reduction; for a forward norm, its phase
    std::int64_t axis = 0;
    bool keeps_nan = false;
    std::map<int, Operand> operands;
  };
  class Run;
  std::vector<Operation> operations_;
};

}  // namespace rondo::test
