#ifdef RONDO_HAS_CUDA

#include "support/host_cudnn.h"

#include <bit>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <vector>

#include "support/host_cudart.h"
#include "support/host_cudnn_graph.h"
#include "support/host_cudnn_node.h"
#include "tensor/convert.h"

namespace rondo::test {
namespace {

std::size_t size_of_type(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_DOUBLE:
    case CUDNN_TYPE_HANDLE:
    case CUDNN_TYPE_VOID_PTR:
    case CUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    default:
      return 4;
  }
}

cudnnStatus_t create(cudnnHandle_t* handle) {
  static int any;
  *handle = reinterpret_cast<cudnnHandle_t>(&any);
  return CUDNN_STATUS_SUCCESS;
}
thread_local cudaStream_t stream_of_handle = nullptr;  // rondo has one handle per thread
cudnnStatus_t set_stream(cudnnHandle_t, cudaStream_t stream) {
  stream_of_handle = stream;
  return CUDNN_STATUS_SUCCESS;
}
std::size_t version() { return 91900; }
const char* error_string(cudnnStatus_t) { return "a status of the test's own cuDNN"; }
void last_error_string(char* message, std::size_t size) {
  std::snprintf(message, size, "the test's own details");
}

cudnnStatus_t descriptor_create(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t* d) {
  *d = reinterpret_cast<cudnnBackendDescriptor_t>(new Node{type});
  return CUDNN_STATUS_SUCCESS;
}
void forget_plan(const Node* plan);
cudnnStatus_t descriptor_destroy(cudnnBackendDescriptor_t d) {
  forget_plan(&of(d));
  delete &of(d);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t set_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, std::int64_t count,
                            const void* values) {
  if (of(d).finalized || count < 1) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR &&
      !of(*static_cast<const cudnnBackendDescriptor_t*>(values)).finalized)
    return CUDNN_STATUS_BAD_PARAM;
  const auto* bytes = static_cast<const char*>(values);
  of(d).attributes[name] = {type,
                            {bytes, bytes + static_cast<std::size_t>(count) * size_of_type(type)}};
  return CUDNN_STATUS_SUCCESS;
}

/// An engine configuration carries the graph in an attribute of the test's own. There are three
/// engines: the first refuses every graph, the second rounds its factors like a tensor core, and
/// the third is exact.
constexpr int graph_in_config = -1;
enum Engine { declining, rounding, exact, engines };
std::int64_t workspace_of_rounding = 100;

cudnnStatus_t get_attribute(cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name,
                            cudnnBackendAttributeType_t type, std::int64_t wanted,
                            std::int64_t* count, void* values) {
  if (!of(d).finalized) return CUDNN_STATUS_NOT_INITIALIZED;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS) {
    *count = engines;
    auto* configs = static_cast<cudnnBackendDescriptor_t*>(values);
    for (std::int64_t i = 0; i < wanted && i < engines; ++i) {
      Node& config = of(configs[i]);
      config.attributes[graph_in_config] =
          of(d).attributes.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
      config.engine = static_cast<int>(i);
      config.finalized = true;
    }
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE) {
    Node& engine = of(*static_cast<cudnnBackendDescriptor_t*>(values));
    engine.engine = of(d).engine;
    engine.finalized = true;
    *count = 1;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE) {
    *count = of(d).engine == rounding;
    if (*count)
      *static_cast<cudnnBackendNumericalNote_t*>(values) = CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name == CUDNN_ATTR_ENGINE_GLOBAL_INDEX) {
    *static_cast<std::int64_t*>(values) = of(d).engine;
    return CUDNN_STATUS_SUCCESS;
  }
  if (name != CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE || type != CUDNN_TYPE_INT64)
    return CUDNN_STATUS_BAD_PARAM;
  *count = 1;
  const Node& config = of(d).node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  *static_cast<std::int64_t*>(values) = config.engine == rounding ? workspace_of_rounding : 100;
  return CUDNN_STATUS_SUCCESS;
}

/// The problem, read from a plan as the library would have stored it when it was finalised.
struct Tensor4 {
  std::int64_t uid = 0;
  std::vector<std::int64_t> dims, strides;
  explicit Tensor4(const Node& n)
      : uid(n.one<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID)),
        dims(n.all<std::int64_t>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides(n.all<std::int64_t>(CUDNN_ATTR_TENSOR_STRIDES)) {}
  std::int64_t at(std::int64_t a, std::int64_t b, std::int64_t c, std::int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
};

struct Problem {
  cudnnBackendDescriptorType_t type;
  cudnnDataType_t dtype;
  Tensor4 x, w, y;
  std::int64_t bias = 0;  // its name, if the graph adds one
  int activation = -1;    // its mode, if the graph has one
  std::vector<std::int64_t> pre, post, stride, dilation;
  bool rounds = false;

  Problem(const Node& op, int conv, int x_name, int w_name, int y_name)
      : type(op.type),
        dtype(op.node(x_name).one<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)),
        x(op.node(x_name)),
        w(op.node(w_name)),
        y(op.node(y_name)),
        pre(op.node(conv).all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS)),
        post(op.node(conv).all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_POST_PADDINGS)),
        stride(op.node(conv).all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)),
        dilation(op.node(conv).all<std::int64_t>(CUDNN_ATTR_CONVOLUTION_DILATIONS)) {}

  bool is_consistent() const {
    for (std::size_t i = 0; i < 2; ++i) {
      const std::int64_t room =
          x.dims[2 + i] + pre[i] + post[i] - dilation[i] * (w.dims[2 + i] - 1) - 1;
      if (pre[i] < 0 || post[i] < 0 || y.dims[2 + i] != room / stride[i] + 1) return false;
    }
    return x.dims[1] % w.dims[1] == 0 && y.dims[1] == w.dims[0] && x.dims[0] == y.dims[0];
  }
};

Problem problem_of(const Node& op) {
  switch (op.type) {
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
      return {op, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
    case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
      return {op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
    default:
      return {op, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
              CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
  }
}

/// Guards both kinds of plans, which the ranks of a test make and use on threads.
std::mutex& plans_mutex() {
  static auto* mutex = new std::mutex;
  return *mutex;
}
/// Plans outlive the descriptors from which they were made, as the library permits.
std::map<const Node*, Problem>& plans() {
  static auto* all = new std::map<const Node*, Problem>;
  return *all;
}
std::map<const Node*, HostGraph>& graph_plans() {
  static auto* all = new std::map<const Node*, HostGraph>;
  return *all;
}

void forget_plan(const Node* plan) {
  const std::lock_guard lock(plans_mutex());
  plans().erase(plan);
  graph_plans().erase(plan);
}

cudnnStatus_t finalize(cudnnBackendDescriptor_t d) {
  Node& node = of(d);
  if (node.type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    const std::lock_guard lock(plans_mutex());
    const Node& config = node.node(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
    if (config.engine == declining) return CUDNN_STATUS_NOT_SUPPORTED;
    const Node& graph = config.node(graph_in_config);
    if (HostGraph::is_one(graph)) {
      graph_plans().insert_or_assign(&node, HostGraph(graph));
      node.finalized = true;
      return CUDNN_STATUS_SUCCESS;
    }
    const auto ops = graph.all<cudnnBackendDescriptor_t>(CUDNN_ATTR_OPERATIONGRAPH_OPS);
    Problem problem = problem_of(of(ops[0]));
    for (std::size_t i = 1; i < ops.size(); ++i) {  // a bias, then an activation
      const Node& op = of(ops[i]);
      if (Tensor4(op.node(CUDNN_ATTR_OPERATION_POINTWISE_XDESC)).uid != problem.y.uid)
        return CUDNN_STATUS_BAD_PARAM;
      problem.y = Tensor4(op.node(CUDNN_ATTR_OPERATION_POINTWISE_YDESC));
      const int mode =
          op.node(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR).one<int>(CUDNN_ATTR_POINTWISE_MODE);
      if (mode == CUDNN_POINTWISE_ADD) {
        problem.bias = Tensor4(op.node(CUDNN_ATTR_OPERATION_POINTWISE_BDESC)).uid;
      } else {
        problem.activation = mode;
      }
    }
    if (!problem.is_consistent()) return CUDNN_STATUS_BAD_PARAM;
    problem.rounds = config.engine == rounding;
    plans().insert_or_assign(&node, problem);
  }
  node.finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

/// Calls f(channels in x, channels in w, element of y, number of channels) for each element of y
/// and each position of the filter. All three are contiguous, with the channels last.
template <class F>
void for_each_position(const Problem& p, double* x, double* w, double* y, F f) {
  const std::int64_t channels = p.w.dims[1], groups = p.x.dims[1] / channels,
                     of_group = p.w.dims[0] / groups;
  for (std::int64_t n = 0; n < p.y.dims[0]; ++n)
    for (std::int64_t i = 0; i < p.y.dims[2]; ++i)
      for (std::int64_t j = 0; j < p.y.dims[3]; ++j)
        for (std::int64_t k = 0; k < p.y.dims[1]; ++k, ++y)
          for (std::int64_t r = 0; r < p.w.dims[2]; ++r)
            for (std::int64_t s = 0; s < p.w.dims[3]; ++s) {
              const std::int64_t h = i * p.stride[0] - p.pre[0] + r * p.dilation[0];
              const std::int64_t v = j * p.stride[1] - p.pre[1] + s * p.dilation[1];
              if (h < 0 || h >= p.x.dims[2] || v < 0 || v >= p.x.dims[3]) continue;
              f(x + ((n * p.x.dims[2] + h) * p.x.dims[3] + v) * p.x.dims[1] +
                    k / of_group * channels,
                w + ((k * p.w.dims[2] + r) * p.w.dims[3] + s) * channels, *y, channels);
            }
}

/// The sum of a[i] b[i], added to `sum`.
void add_dot(double& sum, const double* a, const double* b, std::int64_t n) {
  double total = 0;
#pragma omp simd reduction(+ : total)
  for (std::int64_t i = 0; i < n; ++i) total += a[i] * b[i];
  sum += total;
}
/// sum[i] += a b[i].
void add_scaled(double* sum, double a, const double* b, std::int64_t n) {
#pragma omp simd
  for (std::int64_t i = 0; i < n; ++i) sum[i] += a * b[i];
}

/// All sums are in double, in a contiguous copy with the channels last.
template <class T>
void compute(const Problem& p, void* x_, void* w_, void* y_, const void* bias) {
  // As a tensor core reads it: 10 of an f32's 23 bits.
  auto value = [&](const T& v) {
    if constexpr (std::is_same_v<T, float>) {
      if (p.rounds)
        return static_cast<double>(
            std::bit_cast<float>(std::bit_cast<std::uint32_t>(v) & ~0x1fffu));
    }
    return convert<double>(v);
  };
  // Calls f(element of the tensor, element of its copy) for all elements.
  auto with_copy = [](const Tensor4& t, T* data, std::vector<double>& copy, auto f) {
    std::size_t at = 0;
    copy.resize(static_cast<std::size_t>(t.dims[0] * t.dims[1] * t.dims[2] * t.dims[3]));
    for (std::int64_t a = 0; a < t.dims[0]; ++a)
      for (std::int64_t c = 0; c < t.dims[2]; ++c)
        for (std::int64_t d = 0; d < t.dims[3]; ++d)
          for (std::int64_t b = 0; b < t.dims[1]; ++b) f(data[t.at(a, b, c, d)], copy[at++]);
  };
  const bool forward = p.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const bool of_data = p.type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  std::vector<double> x, w, y;
  auto read = [&](T& from, double& to) { to = value(from); };
  auto zero = [&](T&, double& to) { to = 0; };
  auto load = [&](const Tensor4& t, void* data, std::vector<double>& copy, bool is_result) {
    is_result ? with_copy(t, static_cast<T*>(data), copy, zero)
              : with_copy(t, static_cast<T*>(data), copy, read);
  };
  load(p.x, x_, x, of_data);
  load(p.w, w_, w, !forward && !of_data);
  load(p.y, y_, y, forward);
  auto add = [&](double* xs, double* ws, double& ys, std::int64_t channels) {
    if (forward)
      add_dot(ys, xs, ws, channels);
    else if (of_data)
      add_scaled(xs, ys, ws, channels);
    else
      add_scaled(ws, ys, xs, channels);
  };
  for_each_position(p, x.data(), w.data(), y.data(), add);
  const auto channels = static_cast<std::size_t>(p.y.dims[1]);
  for (std::size_t i = 0; bias != nullptr && i < y.size(); ++i)
    y[i] += convert<double>(static_cast<const T*>(bias)[i % channels]);
  for (double& v : y) {
    if (p.activation == CUDNN_POINTWISE_RELU_FWD) v = v < 0 ? 0 : v;
    if (p.activation == CUDNN_POINTWISE_GELU_APPROX_TANH_FWD)
      v = v / 2 * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
  }
  auto write = [](T& to, double& from) { to = convert<T>(from); };
  if (forward)
    with_copy(p.y, static_cast<T*>(y_), y, write);
  else if (of_data)
    with_copy(p.x, static_cast<T*>(x_), x, write);
  else
    with_copy(p.w, static_cast<T*>(w_), w, write);
}

cudnnStatus_t execute(cudnnHandle_t, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack) {
  if (!of(pack).finalized) return CUDNN_STATUS_BAD_PARAM;
  const auto uids = of(pack).all<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = of(pack).all<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::unique_lock lock(plans_mutex());
  if (auto graph = graph_plans().find(&of(plan)); graph != graph_plans().end()) {
    std::function<void()> work = graph->second.with(uids, pointers);
    lock.unlock();
    if (!work) return CUDNN_STATUS_BAD_PARAM;
    submit(stream_of_handle, [work] {
      work();
      return true;
    });
    return CUDNN_STATUS_SUCCESS;
  }
  auto found = plans().find(&of(plan));
  if (found == plans().end()) return CUDNN_STATUS_BAD_PARAM;
  const Problem p = found->second;
  lock.unlock();
  auto pointer = [&](std::int64_t uid) {
    for (std::size_t i = 0; i < uids.size(); ++i) {
      if (uids[i] == uid) return pointers[i];
    }
    return static_cast<void*>(nullptr);
  };
  void *x = pointer(p.x.uid), *w = pointer(p.w.uid), *y = pointer(p.y.uid), *bias = pointer(p.bias);
  if (p.bias != 0 && bias == nullptr) return CUDNN_STATUS_BAD_PARAM;
  auto put = [&](auto zero) {
    submit(stream_of_handle, [=] {
      compute<decltype(zero)>(p, x, w, y, bias);
      return true;
    });
    return CUDNN_STATUS_SUCCESS;
  };
  switch (p.dtype) {
    case CUDNN_DATA_DOUBLE:
      return put(double{});
    case CUDNN_DATA_FLOAT:
      return put(float{});
    case CUDNN_DATA_BFLOAT16:
      return put(BFloat16{});
    case CUDNN_DATA_HALF:
      return put(Half{});
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

}  // namespace

void set_workspace_of_first_engine(std::int64_t bytes) { workspace_of_rounding = bytes; }

const cuda::Cudnn& host_cudnn() {
  static const cuda::Cudnn table{create,
                                 set_stream,
                                 version,
                                 error_string,
                                 last_error_string,
                                 descriptor_create,
                                 descriptor_destroy,
                                 set_attribute,
                                 get_attribute,
                                 finalize,
                                 execute};
  return table;
}

}  // namespace rondo::test

#endif  // RONDO_HAS_CUDA
