#pragma once
// Plans: a graph of cuDNN operations, ready to run on one of cuDNN's engines. Shared by
// convolutions (conv_plan.h), batch norms (norm_plan.h) and attention (attention_plan.h).
//
// cuDNN's heuristics propose engines for a graph, the best first. Some of them decline to create a
// plan; then the next one is tried. A plan can also be created without a GPU, for a GPU that is
// described by its properties (PlanTarget in cudnn.h).

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "tensor/cuda/cudnn.h"
#include "tensor/dtype.h"
#include "tensor/shape.h"

namespace rondo::cuda {

/// Throws DTypeError naming `op` for a dtype that cuDNN does not support.
cudnnDataType_t cudnn_type(DType dtype, const char* op);

/// A graph under construction. It owns all descriptors of the graph, and destroys each descriptor
/// before those it was built on.
class GraphBuilder {
 public:
  GraphBuilder() = default;
  ~GraphBuilder();
  GraphBuilder(const GraphBuilder&) = delete;
  GraphBuilder& operator=(const GraphBuilder&) = delete;

  enum class Kind {
    in_memory,
    between,   // from one operation to the next, never stored in memory
    by_value,  // a number on the host
  };
  /// A tensor with the name `uid`, which a pack of pointers uses to refer to it. Calls with the
  /// same uid return one descriptor: that of the first.
  const Descriptor& tensor(std::int64_t uid, cudnnDataType_t type, const Dims& sizes,
                           const Dims& strides, Kind kind = Kind::in_memory);
  /// A descriptor that the caller fills and finalises.
  Descriptor& add(cudnnBackendDescriptorType_t type) { return others_.emplace_back(type); }
  /// Adds a finalised operation. The graph's operations keep this order.
  void operation(const Descriptor& op) { operations_.push_back(op.get()); }
  /// Begins an operation that computes y = mode(x, b) for each element. `configure` sets further
  /// attributes of the mode, the caller sets the operation's operands.
  Descriptor& pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision = CUDNN_DATA_FLOAT,
                        const std::function<void(Descriptor& mode)>& configure = {});
  /// Sets an operation's last operand, finalises the operation and adds it.
  void end(Descriptor& op, cudnnBackendAttributeName_t name, const Descriptor& result);
  /// The graph of all operations.
  const Descriptor& finish(const PlanTarget& target);

 private:
  std::map<std::int64_t, Descriptor> tensors_;
  std::list<Descriptor> others_;
  std::vector<cudnnBackendDescriptor_t> operations_;
};

/// Makes the mode of a relu propagate NaN: divergence must stay visible.
void propagate_nan(Descriptor& mode);

struct CudnnPlan {
  Descriptor plan;
  std::int64_t workspace;  // bytes
  bool tensor_cores, deterministic;
};

struct EngineWishes {
  bool deterministic = false;    // only engines whose results are bit-identical in every run
  bool no_tensor_cores = false;  // tensor cores round f32 factors to TF32
  // Regardless of their rank in the heuristics:
  bool tensor_cores_first = false;
  bool different_engines_first = false;  // the best configuration of each engine before the others
};

/// Plans for a graph, the most promising first; at most `limit`, and none if no engine supports the
/// graph.
std::vector<CudnnPlan> cudnn_plans(const Descriptor& graph, const PlanTarget& target,
                                   const EngineWishes& wishes, std::size_t limit);

/// A tensor's memory, or a number on the host, with its uid in the plan.
using NamedPointer = std::pair<std::int64_t, const void*>;
/// Submits a plan's kernels to the device's current stream.
void execute(const CudnnPlan& plan, int device, const std::vector<NamedPointer>& pointers);

/// Calls `run` and returns true, or false if it ran out of memory: a plan's workspace may not fit.
bool fits_in_memory(const std::function<void()>& run);

/// The device time of `work` in milliseconds: the minimum of three runs, after one run that loads
/// kernels. Waits for the device.
float milliseconds(int device, const std::function<void()>& work);

struct Fastest {
  std::size_t index;
  float ms;
};
/// The plan that `run` runs fastest, or none if every plan fails (for example because its workspace
/// does not fit). In that case `failure` contains the last error.
std::optional<Fastest> fastest_of(const std::vector<CudnnPlan>& plans, int device,
                                  const std::function<void(const CudnnPlan&)>& run,
                                  std::string* failure = nullptr);

/// Plans by problem, kept until the process ends: a training step has a few dozen. Each thread has
/// its own, since cuDNN does not promise that all engines can run one plan in two threads at a
/// time.
class PlanCache {
 public:
  /// The result of `make` from the thread's first call with this key. A null result is kept as
  /// well. Other threads can use the cache while `make` measures.
  std::shared_ptr<const CudnnPlan> get(
      const std::vector<std::int64_t>& key,
      const std::function<std::shared_ptr<const CudnnPlan>()>& make);
  /// The plan that `get` made for this key; null before that.
  std::shared_ptr<const CudnnPlan> find(const std::vector<std::int64_t>& key);
  std::size_t size();
  /// Makes `get` return this plan in this thread from now on.
  void put(const std::vector<std::int64_t>& key, std::shared_ptr<const CudnnPlan> plan);

 private:
  using Name = std::tuple<std::thread::id, const Cudnn*, std::vector<std::int64_t>>;
  static Name name(const std::vector<std::int64_t>& key) {
    return {std::this_thread::get_id(), &cudnn(), key};
  }

  std::mutex mutex_;
  std::map<Name, std::shared_ptr<const CudnnPlan>> known_;
};

/// The fastest of the plans that `make` returns if it is faster than `own`, otherwise null. Tried
/// once for each key. An error of `make` (no cuDNN, or it rejects the graph) means: no plans.
/// During a capture, which cannot measure: null for keys that have not been tried.
std::shared_ptr<const CudnnPlan> faster_plan(PlanCache& cache, const std::vector<std::int64_t>& key,
                                             int device,
                                             const std::function<std::vector<CudnnPlan>()>& make,
                                             const std::function<void()>& own,
                                             const std::function<void(const CudnnPlan&)>& run);

}  // namespace rondo::cuda
