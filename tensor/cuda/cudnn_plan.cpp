#include "tensor/cuda/cudnn_plan.h"

#include <algorithm>
#include <set>

#include "tensor/cuda/capture.h"
#include "tensor/cuda/cudart.h"
#include "tensor/cuda/runtime.h"
#include "tensor/cuda/stream.h"
#include "tensor/tensor.h"

namespace rondo::cuda {
namespace {

bool uses_tensor_cores(const Descriptor& config) {
  return has_note(config, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}
bool is_deterministic(const Descriptor& config) {
  return !has_note(config, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
}

}  // namespace

cudnnDataType_t cudnn_type(DType dtype, const char* op) {
  switch (dtype) {
    case DType::f64:
      return CUDNN_DATA_DOUBLE;
    case DType::f32:
      return CUDNN_DATA_FLOAT;
    case DType::bf16:
      return CUDNN_DATA_BFLOAT16;
    default:
      require<DTypeError>(dtype == f16, op, ": no CUDA kernel for ", dtype);
      return CUDNN_DATA_HALF;
  }
}

GraphBuilder::~GraphBuilder() {
  while (!others_.empty()) others_.pop_back();
}

const Descriptor& GraphBuilder::tensor(std::int64_t uid, cudnnDataType_t type, const Dims& sizes,
                                       const Dims& strides, Kind kind) {
  const auto [known, is_new] = tensors_.try_emplace(uid, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  Descriptor& tensor = known->second;
  if (!is_new) return tensor;
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, uid);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::vector<std::int64_t>(sizes.begin(), sizes.end()));
  tensor.set(CUDNN_ATTR_TENSOR_STRIDES, std::vector<std::int64_t>(strides.begin(), strides.end()));
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
  const bool yes = true;
  if (kind == Kind::between) tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
  if (kind == Kind::by_value)
    tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
  tensor.finalize("a tensor");
  return tensor;
}

void propagate_nan(Descriptor& mode) {
  const cudnnNanPropagation_t nan = CUDNN_PROPAGATE_NAN;
  mode.set(CUDNN_ATTR_POINTWISE_NAN_PROPAGATION, CUDNN_TYPE_NAN_PROPOGATION, 1, &nan);
}

Descriptor& GraphBuilder::pointwise(cudnnPointwiseMode_t mode, cudnnDataType_t precision,
                                    const std::function<void(Descriptor& mode)>& configure) {
  Descriptor& what = add(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  what.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  what.set(CUDNN_ATTR_POINTWISE_MATH_PREC, precision);
  if (configure) configure(what);
  what.finalize("a pointwise operation's mode");
  Descriptor& op = add(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  op.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, what);
  return op;
}

void GraphBuilder::end(Descriptor& op, cudnnBackendAttributeName_t name, const Descriptor& result) {
  op.set(name, result);
  op.finalize("an operation");
  operation(op);
}

const Descriptor& GraphBuilder::finish(const PlanTarget& target) {
  Descriptor& graph = add(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, std::ssize(operations_),
            operations_.data());
  target.name_in_graph(graph);
  graph.finalize("an operation graph");
  return graph;
}

std::vector<CudnnPlan> cudnn_plans(const Descriptor& graph, const PlanTarget& target,
                                   const EngineWishes& wishes, std::size_t limit) {
  std::vector<CudnnPlan> plans;
  for (cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    if (!plans.empty()) break;  // the fallback is only for graphs unknown to the heuristics
    std::vector<Descriptor> configs = engine_configs(graph, mode, target);
    if (wishes.tensor_cores_first) std::ranges::stable_partition(configs, uses_tensor_cores);
    if (wishes.different_engines_first) {
      std::set<std::int64_t> seen;
      std::ranges::stable_partition(
          configs, [&](const Descriptor& config) { return seen.insert(engine_of(config)).second; });
    }
    for (const Descriptor& config : configs) {
      if (wishes.no_tensor_cores && uses_tensor_cores(config)) continue;
      if (wishes.deterministic && !is_deterministic(config)) continue;
      Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
      plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
      target.name_in_plan(plan);
      if (!plan.try_finalize()) continue;  // this engine declines; try the next one
      const std::int64_t workspace = plan.get_int64(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
      plans.push_back(
          {std::move(plan), workspace, uses_tensor_cores(config), is_deterministic(config)});
      if (plans.size() == limit) return plans;
    }
  }
  return plans;
}

void execute(const CudnnPlan& plan, int device, const std::vector<NamedPointer>& pointers) {
  const DeviceGuard guard(device);
  const AllocationTag tag("workspaces");
  const Tensor workspace =
      Tensor::empty({plan.workspace}, {.dtype = u8, .device = Device::cuda(device)});
  std::vector<std::int64_t> uids;
  std::vector<void*> data;
  for (const auto& [uid, pointer] : pointers) {
    uids.push_back(uid);
    data.push_back(const_cast<void*>(pointer));
  }
  Descriptor pack(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, uids);
  pack.set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, data);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, std::vector<void*>{workspace.data_ptr()});
  pack.finalize("a variant pack");
  check_cudnn(cudnn().execute(cudnn_handle(device), plan.plan.get(), pack.get()), "a plan");
}

bool fits_in_memory(const std::function<void()>& run) {
  try {
    run();
    return true;
  } catch (const OutOfMemoryError&) {
    return false;
  }
}

float milliseconds(int device, const std::function<void()>& work) {
  const Stream stream = current_stream(device);
  const Event begin(device, true), end(device, true);
  float least = 0;
  for (int round = 0; round < 4; ++round) {
    begin.record(stream);
    work();
    end.record(stream);
    end.synchronize();
    const float ms = end.ms_since(begin);
    least = round <= 1 ? ms : std::min(least, ms);
  }
  return least;
}

std::optional<Fastest> fastest_of(const std::vector<CudnnPlan>& plans, int device,
                                  const std::function<void(const CudnnPlan&)>& run,
                                  std::string* failure) {
  std::optional<Fastest> best;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    try {
      const float ms = milliseconds(device, [&] { run(plans[i]); });
      if (!best || ms < best->ms) best = {i, ms};
    } catch (const CudaError& error) {  // the other plans may need less memory
      cudart().get_last_error();        // clear the error for the next call
      if (failure != nullptr) *failure = error.what();
    }
  }
  return best;
}

std::shared_ptr<const CudnnPlan> PlanCache::get(
    const std::vector<std::int64_t>& key,
    const std::function<std::shared_ptr<const CudnnPlan>()>& make) {
  const Name mine = name(key);
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = known_.find(mine); found != known_.end()) return found->second;
  }
  std::shared_ptr<const CudnnPlan> made = make();
  const std::lock_guard lock(mutex_);
  return known_.emplace(mine, std::move(made)).first->second;
}

std::shared_ptr<const CudnnPlan> PlanCache::find(const std::vector<std::int64_t>& key) {
  const Name mine = name(key);
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(mine);
  return found != known_.end() ? found->second : nullptr;
}

std::size_t PlanCache::size() {
  const std::lock_guard lock(mutex_);
  return known_.size();
}

void PlanCache::put(const std::vector<std::int64_t>& key, std::shared_ptr<const CudnnPlan> plan) {
  const std::lock_guard lock(mutex_);
  known_[name(key)] = std::move(plan);
}

std::shared_ptr<const CudnnPlan> faster_plan(PlanCache& cache, const std::vector<std::int64_t>& key,
                                             int device,
                                             const std::function<std::vector<CudnnPlan>()>& make,
                                             const std::function<void()>& own,
                                             const std::function<void(const CudnnPlan&)>& run) {
  try {
    if (captures_underway()) return cache.find(key);
    return cache.get(key, [&]() -> std::shared_ptr<const CudnnPlan> {
      const DeviceGuard guard(device);
      std::vector<CudnnPlan> plans = make();
      const auto best = fastest_of(plans, device, run);
      if (!best || milliseconds(device, own) <= best->ms) return nullptr;
      return std::make_shared<CudnnPlan>(std::move(plans[best->index]));
    });
  } catch (const CudaError&) {
    return nullptr;
  }
}

}  // namespace rondo::cuda
