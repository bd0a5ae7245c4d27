#pragma once
// Plans: a graph of cuDNN's operations, made ready to run by one of its engines. What convolutions
// (conv_plan.h) and batch norms (norm_plan.h) share.
//
// cuDNN's heuristics name engines for a graph, the best first; some of them decline when they are
// asked for a plan, and the next is tried. A plan can be made without a GPU as well, for one that
// is described by its properties (PlanTarget in cudnn.h).

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tensor/cuda/cudnn.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rondo::cuda {

/// Throws DTypeError naming `op` for a dtype that cuDNN does not compute with.
cudnnDataType_t cudnn_type(DType dtype, const char* op);

/// A graph under construction, and the owner of all that it is built on. What is built on other
/// descriptors goes before them.
class GraphBuilder {
 public:
  GraphBuilder() = default;
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  enum class Kind {
    in_memory,
    between,   // of one operation's result and the next one's input, never written out
    by_value,  // a number on the host
  };
  /// A tensor under a name, `uid`, by which a pack of pointers will refer to it.
  const Descriptor& tensor(std::int64_t uid, cudnnDataType_t type, const Dims& sizes,
                           const Dims& strides, Kind kind = Kind::in_memory);
  /// A descriptor to be filled and finalised by the caller.
  Descriptor& add(cudnnBackendDescriptorType_t type) { return others_.emplace_back(type); }
  /// An operation, finalised; the graph's operations keep this order.
  void operation(const Descriptor& op) { operations_.push_back(op.get()); }
  /// The graph of all operations.
  const Descriptor& finish(const PlanTarget& target);

 private:
  std::list<Descriptor> tensors_, others_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

struct CudnnPlan {
  Descriptor plan;
  std::int64_t workspace;  // bytes
  bool tensor_cores, deterministic;
};

struct EngineWishes {
  bool deterministic = false;       // only engines that give the same bits every time
  bool no_tensor_cores = false;     // which round f32 factors to TF32
  bool tensor_cores_first = false;  // however the heuristics rank them
};

/// Plans for a graph, the one that promises most first; at most `limit`, none where no engine can
/// do it.
std::vector<CudnnPlan> cudnn_plans(const Descriptor& graph, const PlanTarget& target,
                                   const EngineWishes& wishes, std::size_t limit);

/// A tensor's memory, or a number on the host, under the name that a plan knows it by.
using NamedPointer = std::pair<std::int64_t, const void*>;
/// Puts a plan's kernels into the device's current stream.
void execute(const CudnnPlan& plan, int device, const std::vector<NamedPointer>& pointers);

/// Milliseconds that `work` takes the device: the least of three, after one that loads kernels.
/// Waits for the device.
float milliseconds(int device, const std::function<void()>& work);

struct Fastest {
  std::size_t index;
  float ms;
};
/// The fastest of the plans as `run` runs them; none when each of them fails (for want of memory
/// for its workspace, say). `failure` is then what the last one said.
std::optional<Fastest> fastest_of(const std::vector<CudnnPlan>& plans, int device,
                                  const std::function<void(const CudnnPlan&)>& run,
                                  std::string* failure = nullptr);

/// Plans by problem, kept as long as the process: a training step has some dozens.
class PlanCache {
 public:
  /// What `make` returned when this key was first asked for; null is kept as well.
  std::shared_ptr<const CudnnPlan> get(
      const std::vector<std::int64_t>& key,
      const std::function<std::shared_ptr<const CudnnPlan>()>& make);
  /// From now on `get` returns this one.
  void put(const std::vector<std::int64_t>& key, std::shared_ptr<const CudnnPlan> plan);

 private:
  std::mutex mutex_;
  std::map<std::pair<const Cudnn*, std::vector<std::int64_t>>, std::shared_ptr<const CudnnPlan>>
      known_;
};

}  // namespace rondo::cuda
