#include "tensor/cuda/cudnn.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>

#include "tensor/cuda/runtime.h"
#include "tensor/cuda/shared_library.h"
#include "tensor/cuda/stream.h"

namespace rondo::cuda {
namespace {

std::atomic<const Cudnn*> cudnn_replacement{nullptr};

Cudnn load_cudnn() {
  static const SharedLibrary library("cuDNN", {"libcudnn.so.9"});
  Cudnn table{};
  library.load("cudnnCreate", table.create);
  library.load("cudnnSetStream", table.set_stream);
  library.load("cudnnGetVersion", table.version);
  library.load("cudnnGetErrorString", table.error_string);
  library.load("cudnnGetLastErrorString", table.last_error_string);
  library.load("cudnnBackendCreateDescriptor", table.descriptor_create);
  library.load("cudnnBackendDestroyDescriptor", table.descriptor_destroy);
  library.load("cudnnBackendSetAttribute", table.set_attribute);
  library.load("cudnnBackendGetAttribute", table.get_attribute);
  library.load("cudnnBackendFinalize", table.finalize);
  library.load("cudnnBackendExecute", table.execute);
  require<CudaError>(table.version() >= 90000, library.path(), " is cuDNN ", table.version(),
                     ", but 9.0 or later is needed");
  return table;
}

}  // namespace

const Cudnn& cudnn() {
  if (const Cudnn* table = cudnn_replacement) return *table;
  static const Cudnn table = load_cudnn();
  return table;
}

void set_cudnn(const Cudnn* table) { cudnn_replacement = table; }

void check_cudnn(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) [[likely]]
    return;
  throw CudaError(concat("cuDNN: ", what, ": ", cudnn().error_string(status), cudnn_details()));
}

std::string cudnn_details() {
  char details[512] = {};  // cuDNN ends it with a zero
  cudnn().last_error_string(details, sizeof details);
  return details[0] != 0 ? concat(" (", details, ")") : "";
}

cudnnHandle_t cudnn_handle(int device) {
  // A handle belongs to one thread, since its stream is set before each use. It exists until the
  // process ends, like the kernels that it loaded.
  thread_local std::map<std::pair<int, const Cudnn*>, cudnnHandle_t> handles;
  const Cudnn& table = cudnn();
  cudnnHandle_t& handle = handles[{device, &table}];
  if (handle == nullptr) {
    const DeviceGuard guard(device);  // the handle is created for the current device
    check_cudnn(table.create(&handle), "cudnnCreate");
  }
  check_cudnn(table.set_stream(handle, current_stream(device).get()), "cudnnSetStream");
  return handle;
}

Descriptor::Descriptor(cudnnBackendDescriptorType_t type) {
  check_cudnn(cudnn().descriptor_create(type, &handle_), "a descriptor");
}

Descriptor::~Descriptor() {
  if (handle_ != nullptr) cudnn().descriptor_destroy(handle_);
}

void Descriptor::set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     std::int64_t count, const void* values) {
  const cudnnStatus_t status = cudnn().set_attribute(handle_, name, type, count, values);
  if (status != CUDNN_STATUS_SUCCESS)
    check_cudnn(status, concat("attribute ", static_cast<int>(name)).c_str());
}

void Descriptor::finalize(const char* what) { check_cudnn(cudnn().finalize(handle_), what); }

bool Descriptor::try_finalize() { return cudnn().finalize(handle_) == CUDNN_STATUS_SUCCESS; }

std::int64_t Descriptor::get_int64(cudnnBackendAttributeName_t name) const {
  std::int64_t value = 0, count = 0;
  check_cudnn(cudnn().get_attribute(handle_, name, CUDNN_TYPE_INT64, 1, &count, &value),
              "an attribute's value");
  return value;
}

namespace {

Descriptor engine_in(const Descriptor& engine_config) {
  Descriptor engine(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  cudnnBackendDescriptor_t handle = engine.get();
  std::int64_t count = 0;
  check_cudnn(cudnn().get_attribute(engine_config.get(), CUDNN_ATTR_ENGINECFG_ENGINE,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &handle),
              "an engine");
  return engine;
}

}  // namespace

Descriptor device_properties(int device) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, 1, &device);
  properties.finalize("a device's properties");
  return properties;
}

Descriptor device_properties(const std::string& json) {
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                 static_cast<std::int64_t>(json.size()) + 1, json.c_str());
  properties.finalize("a device's properties");
  return properties;
}

std::string to_json(const Descriptor& device_properties) {
  std::int64_t size = 0;
  auto get = [&](char* to) {
    check_cudnn(
        cudnn().get_attribute(device_properties.get(), CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
                              CUDNN_TYPE_CHAR, size, &size, to),
        "a device's properties as JSON");
  };
  get(nullptr);
  std::string json(static_cast<std::size_t>(size), 0);
  get(json.data());
  return json.c_str();  // up to the terminating 0
}

// Releases before 9.8 need the handle here. Later ones call this deprecated but still accept it.
constexpr auto graph_handle = static_cast<cudnnBackendAttributeName_t>(800);
constexpr auto plan_handle = static_cast<cudnnBackendAttributeName_t>(400);

void PlanTarget::name_in_graph(Descriptor& graph) const {
  if (properties == nullptr) graph.set(graph_handle, handle);
}
void PlanTarget::name_in_heuristics(Descriptor& heuristics) const {
  if (properties != nullptr) heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, *properties);
}
void PlanTarget::name_in_plan(Descriptor& plan) const {
  if (properties != nullptr)
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, *properties);
  else
    plan.set(plan_handle, handle);
}

std::vector<Descriptor> engine_configs(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                       const PlanTarget& target) {
  Descriptor heuristics(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  target.name_in_heuristics(heuristics);
  if (!heuristics.try_finalize()) return {};
  std::int64_t count = 0;
  check_cudnn(cudnn().get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
              "the number of engines");
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    handles.push_back(configs.back().get());
  }
  if (count == 0) return configs;
  check_cudnn(cudnn().get_attribute(heuristics.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, count, &count, handles.data()),
              "the engines");
  configs.erase(configs.begin() + count, configs.end());
  return configs;
}

std::int64_t engine_of(const Descriptor& engine_config) {
  return engine_in(engine_config).get_int64(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}

bool has_note(const Descriptor& engine_config, cudnnBackendNumericalNote_t note) {
  const Descriptor engine = engine_in(engine_config);
  std::int64_t count = 0;
  std::array<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT> notes{};
  check_cudnn(
      cudnn().get_attribute(engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                            CUDNN_TYPE_NUMERICAL_NOTE, std::ssize(notes), &count, notes.data()),
      "an engine's numerical notes");
  return std::find(notes.begin(), notes.begin() + count, note) != notes.begin() + count;
}

}  // namespace rondo::cuda
