#pragma once
// cuDNN's graph interface: its functions as a table, and its descriptors as objects. Private to
// tensor/cuda.
//
// In this interface everything is a descriptor: it is created, its attributes are set, it is
// finalised, and after that it is read-only. Operations on tensors form a graph; heuristics propose
// engines for the graph, the best first; an engine's configuration becomes a plan; a plan runs on a
// pack of pointers.

#include <cudnn_graph.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace rondo::cuda {

struct Cudnn {
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_string;
  decltype(&cudnnGetLastErrorString) last_error_string;
  decltype(&cudnnBackendCreateDescriptor) descriptor_create;
  decltype(&cudnnBackendDestroyDescriptor) descriptor_destroy;
  decltype(&cudnnBackendSetAttribute) set_attribute;
  decltype(&cudnnBackendGetAttribute) get_attribute;
  decltype(&cudnnBackendFinalize) finalize;
  decltype(&cudnnBackendExecute) execute;
};

/// The table. The first call loads the library. Throws CudaError if the library is missing or older
/// than version 9.
const Cudnn& cudnn();
/// Replaces the table, for tests; null restores the real one.
void set_cudnn(const Cudnn* table);

/// The calling thread's cuDNN handle for a device, set to that device's current stream.
cudnnHandle_t cudnn_handle(int device);

/// Throws CudaError with `what`, cuDNN's text for the status, and its details.
void check_cudnn(cudnnStatus_t status, const char* what);

/// The thread's last message, which says what a status is about: " (text)", or nothing.
std::string cudnn_details();

/// One descriptor. Movable. It must be destroyed after everything that was built on it.
class Descriptor {
 public:
  explicit Descriptor(cudnnBackendDescriptorType_t type);
  ~Descriptor();
  Descriptor(Descriptor&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }

  cudnnBackendDescriptor_t get() const { return handle_; }

  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, std::int64_t count,
           const void* values);
  void set(cudnnBackendAttributeName_t name, std::int64_t value) {
    set(name, CUDNN_TYPE_INT64, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<std::int64_t>& values) {
    set(name, CUDNN_TYPE_INT64, static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& value) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value.handle_);
  }
  void set(cudnnBackendAttributeName_t name, cudnnDataType_t value) {
    set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, cudnnHandle_t value) {
    set(name, CUDNN_TYPE_HANDLE, 1, &value);
  }
  void set(cudnnBackendAttributeName_t name, const std::vector<void*>& values) {
    set(name, CUDNN_TYPE_VOID_PTR, static_cast<std::int64_t>(values.size()), values.data());
  }

  void finalize(const char* what);
  /// Returns false if cuDNN declines, such as for an engine that does not support this graph.
  bool try_finalize();
  std::int64_t get_int64(cudnnBackendAttributeName_t name) const;

 private:
  cudnnBackendDescriptor_t handle_ = nullptr;
};

/// The properties of a GPU that cuDNN needs to create plans for it, as a finalised descriptor. It
/// can be created on a machine with the GPU, saved, and loaded on a machine without it.
Descriptor device_properties(int device);
/// Throws CudaError if cuDNN cannot parse the JSON.
Descriptor device_properties(const std::string& json);
std::string to_json(const Descriptor& device_properties);

/// The GPU for which plans are created: that of a handle, or one that is only described.
struct PlanTarget {
  cudnnHandle_t handle = nullptr;
  const Descriptor* properties = nullptr;

  void name_in_graph(Descriptor& graph) const;
  void name_in_heuristics(Descriptor& heuristics) const;
  void name_in_plan(Descriptor& plan) const;
};

/// The engine configurations that cuDNN's heuristics propose for a graph, the best first.
std::vector<Descriptor> engine_configs(const Descriptor& graph, cudnnBackendHeurMode_t mode,
                                       const PlanTarget& target);

/// The number of a configuration's engine, among all engines of cuDNN.
std::int64_t engine_of(const Descriptor& engine_config);

/// Whether an engine has this note of cuDNN: that it uses tensor cores (which round f32 factors to
/// TF32), or that it is not deterministic.
bool has_note(const Descriptor& engine_config, cudnnBackendNumericalNote_t note);

}  // namespace rondo::cuda
