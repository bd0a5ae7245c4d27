#pragma once
// Batch norms of the test's own cuDNN: a graph of norms and pointwise operations, stored like in
// the library and computed operation by operation in double.

#include <functional>
#include <map>
#include <vector>

#include "support/host_cudnn_node.h"

namespace rondo::test {

class HostNorm {
 public:
  /// Whether a graph contains a norm.
  static bool is_one(const Node& graph);
  explicit HostNorm(const Node& graph);

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
    int mode = 0;  // of a pointwise operation; for a forward norm, its phase
    bool keeps_nan = false;
    std::map<int, Operand> operands;
  };
  class Run;
  std::vector<Operation> operations_;
};

}  // namespace rondo::test
