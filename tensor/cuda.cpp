#include "tensor/cuda.h"

#include <atomic>

#include "tensor/cuda_graph.h"
#include "tensor/environment.h"
#include "tensor/error.h"

namespace rondo::cuda {
namespace {

bool is_set(const char* variable) { return flag_from_environment(variable).value_or(false); }

std::atomic<Tf32>& tf32() {
  const auto from_environment = [] {
    const auto flag = flag_from_environment("RONDO_TF32");
    return !flag ? Tf32::convolutions : *flag ? Tf32::all : Tf32::none;
  };
  static std::atomic<Tf32> where = from_environment();
  return where;
}
std::atomic<bool>& deterministic() {
  static std::atomic<bool> on = is_set("RONDO_DETERMINISTIC");
  return on;
}
std::atomic<bool>& measuring() {
  static std::atomic<bool> on = is_set("RONDO_MEASURE_PLANS");
  return on;
}

}  // namespace

Tf32 allowed_tf32() { return tf32(); }
void allow_tf32(Tf32 where) { tf32() = where; }
bool is_deterministic() { return deterministic(); }
void set_deterministic(bool on) { deterministic() = on; }
bool measures_plans() { return measuring(); }
void measure_plans(bool on) { measuring() = on; }

#ifndef RONDO_HAS_CUDA  // with CUDA: cuda/runtime.cpp and cuda/allocator.cpp

int device_count() { return 0; }
std::string why_unavailable() { return "this rondo was built without CUDA"; }
void require_device(int index) {
  throw DeviceError(concat("device cuda:", index, " is not available: ", why_unavailable()));
}
std::string description(int device) {
  require_device(device);
  return "";
}
void synchronize(int device) { require_device(device); }
MemoryStats memory_stats(int device) {
  require_device(device);
  return {};
}
void reset_peak_memory(int device) { require_device(device); }
void empty_cache(int device) { require_device(device); }

bool is_capturing() { return false; }
class Graph::Impl {};
Graph::Graph(Device device) { require_device(device.index); }
Graph::~Graph() = default;
void Graph::capture(const std::function<void()>&) {}
bool Graph::is_captured() const { return false; }
void Graph::replay() {}

#endif

}  // namespace rondo::cuda
