// Launches of kernels on the host: the functions of CUDA's runtime that nvcc's code and CUB call,
// replaced by the linker (--wrap in CMakeLists.txt).

#include "ptx/launch.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>

#include "ptx/fibres.h"
#include "ptx/races.h"
#include "ptx/requests.h"
#include "support/host_cudart.h"
#include "support/simulated_gpu.h"
#include "tensor/cuda/simulation.h"

namespace rondo::ptx {
namespace {

std::map<std::string, const Kernel*>& kernels() {
  static std::map<std::string, const Kernel*> all;
  return all;
}
/// The kernel of each function of the host that stands for one.
std::map<const void*, std::string>& stubs() {
  static std::map<const void*, std::string> all;
  return all;
}
std::map<const Kernel*, std::int64_t>& launches() {
  static std::map<const Kernel*, std::int64_t> all;
  return all;
}

std::string readable(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name, nullptr, nullptr, &status), &std::free);
  return status == 0 ? text.get() : name;
}

[[noreturn]] void refuse(const Kernel& k, const std::string& what) {
  std::fprintf(stderr, "ptx: no GPU launches %s: %s\n", readable(k.name).c_str(), what.c_str());
  std::abort();
}

void check_launch(const Kernel& k, dim3 grid, dim3 block, std::size_t shared) {
  auto text = [](dim3 d) {
    return std::to_string(d.x) + " x " + std::to_string(d.y) + " x " + std::to_string(d.z);
  };
  const std::uint64_t threads = std::uint64_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > k.most_threads || block.z > 64)
    refuse(k, "a block of " + text(block) + " threads; at most " + std::to_string(k.most_threads));
  if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffffu || grid.y > 65535 ||
      grid.z > 65535)
    refuse(k,
           "a grid of " + text(grid) + " blocks; at most 2147483647 x 65535 x 65535, at least 1");
  if (shared > 48 * 1024)
    refuse(k, std::to_string(shared) + " bytes of shared memory; at most 49152");
}

void run(const Kernel& k, dim3 grid, dim3 block, unsigned char* parameters, std::size_t shared) {
  // Shared memory is NaN until a thread writes it.
  std::vector<Thread> threads(std::size_t{block.x} * block.y * block.z);
  LongLoop measured{k.name, 0, 0, 0};
  begin_launch(k);
  std::uint32_t blocks = 0;
  for (std::uint32_t z = 0; z < grid.z; ++z)
    for (std::uint32_t y = 0; y < grid.y; ++y)
      for (std::uint32_t x = 0; x < grid.x; ++x) {
        const std::unique_ptr<unsigned char[]> memory(new unsigned char[shared]);
        std::memset(memory.get(), 255, shared);
        begin_block(shared);
        const bool is_sampled = blocks++ < sampled_blocks;
        std::uint32_t i = 0;
        for (Thread& t : threads) {
          t = {.tid = {i % block.x, i / block.x % block.y, i / block.x / block.y},
               .ntid = {block.x, block.y, block.z},
               .ctaid = {x, y, z},
               .nctaid = {grid.x, grid.y, grid.z},
               .kernel = &k,
               .shared = memory.get(),
               .shared_bytes = static_cast<std::uint32_t>(shared),
               .is_sampled = is_sampled};
          ++i;
        }
        if (k.collective)
          run_block(k, threads, parameters);
        else
          for (Thread& t : threads) k.run(t, parameters);
        if (is_sampled) finish_requests(k);
        for (const Thread& t : threads) {
          const auto steps = static_cast<std::int64_t>(t.steps);
          measured.threads += steps > many_steps / 2;
          measured.steps = std::max(measured.steps, steps);
          measured.bytes += static_cast<std::int64_t>(t.bytes);
        }
      }
  if (measured.steps > many_steps && measured.threads < few_threads)
    const_cast<std::vector<LongLoop>&>(long_loops()).push_back(measured);
}

/// At the end of the program, what it launched: one line for each kernel, in the file that
/// RONDO_PTX_REPORT names (check_launches.py).
struct Report {
  Report() {
    kernels(), launches(), long_loops(), requests();  // constructed before, so that they outlive it
    test::set_host_kernels(cuda::HostKernels::compiled);
    memory = test::device_bounds();
  }
  ~Report() {
    const char* name = std::getenv("RONDO_PTX_REPORT");
    std::FILE* file = name != nullptr ? std::fopen(name, "w") : nullptr;
    if (file == nullptr) return;
    for (const auto& [kernel, translated] : kernels())
      std::fprintf(file, "kernel %s %lld\n", kernel.c_str(),
                   static_cast<long long>(launches()[translated]));
    for (const LongLoop& l : long_loops())
      std::fprintf(file, "loop %s %lld %lld %lld\n", l.kernel.c_str(),
                   static_cast<long long>(l.threads), static_cast<long long>(l.steps),
                   static_cast<long long>(l.bytes));
    for (const auto& [kernel, r] : requests())
      std::fprintf(file, "requests %s %lld %lld\n", kernel.c_str(), static_cast<long long>(r.bytes),
                   static_cast<long long>(r.sectors));
    std::fclose(file);
  }
} report;

}  // namespace

const std::vector<LongLoop>& long_loops() {
  static std::vector<LongLoop> all;
  return all;
}

test::DeviceBounds memory{};

void Registered::add(const Kernel& kernel) { kernels().emplace(kernel.name, &kernel); }

void fail(const Thread& t, const char* what) {
  std::fprintf(stderr, "ptx: %s: thread %u of block %u of %s\n", what, flat(t),
               t.ctaid[0] + t.nctaid[0] * (t.ctaid[1] + t.nctaid[1] * t.ctaid[2]),
               readable(t.kernel->name).c_str());
  std::abort();
}
void fail_misaligned(const Thread& t, std::uint64_t address, unsigned bytes) {
  const std::string what = "misaligned access: " + std::to_string(bytes) + " bytes at an address " +
                           std::to_string(address % bytes) + " after a multiple of that";
  fail(t, what.c_str());
}
void fail_outside(const Thread& t, std::uint64_t address, unsigned bytes) {
  constexpr std::uint64_t granule = test::DeviceBounds::granule;
  const std::uint64_t offset = address - memory.begin, valid = memory.valid[offset / granule];
  std::string what = "access outside of a block of memory: " + std::to_string(bytes) + " bytes";
  if (valid > 0)
    what += ", which reach " + std::to_string(offset % granule + bytes - valid) + " beyond its end";
  fail(t, what.c_str());
}
void fail_shared(const Thread& t, std::uint64_t offset, unsigned bytes) {
  const std::string what = "access outside of shared memory: " + std::to_string(bytes) +
                           " bytes at " + std::to_string(static_cast<std::int64_t>(offset)) +
                           " of " + std::to_string(t.shared_bytes);
  fail(t, what.c_str());
}

}  // namespace rondo::ptx

namespace {

/// The arguments of <<<…>>>, which nvcc's code pushes and then pops.
thread_local struct {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
} configuration;

}  // namespace

extern "C" {

void** __wrap___cudaRegisterFatBinary(void*) {
  static void* handle = nullptr;
  return &handle;
}
void __wrap___cudaRegisterFatBinaryEnd(void**) {}
void __wrap___cudaUnregisterFatBinary(void**) {}
void __wrap___cudaRegisterVar(void**, char*, char*, const char*, int, std::size_t, int, int) {}
void __wrap___cudaRegisterFunction(void**, const char* stub, char*, const char* name, int, uint3*,
                                   uint3*, dim3*, dim3*, int*) {
  rondo::ptx::stubs()[stub] = name;
}
unsigned __wrap___cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared,
                                            cudaStream_t stream) {
  configuration = {grid, block, shared, stream};
  return 0;
}
cudaError_t __wrap___cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared,
                                              void* stream) {
  *grid = configuration.grid;
  *block = configuration.block;
  *shared = configuration.shared;
  *static_cast<cudaStream_t*>(stream) = configuration.stream;
  return cudaSuccess;
}
cudaError_t __wrap___cudaGetKernel(cudaKernel_t* kernel, const void* stub) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<void*>(stub));
  return cudaSuccess;
}
cudaError_t __wrap_cudaLaunchKernel(const void* stub, dim3 grid, dim3 block, void** arguments,
                                    std::size_t dynamic, cudaStream_t stream) {
  using namespace rondo::ptx;
  const std::string& name = stubs().at(stub);
  const auto found = kernels().find(name);
  if (found == kernels().end()) {
    std::fprintf(stderr, "ptx: %s was not translated\n", readable(name.c_str()).c_str());
    std::abort();
  }
  const Kernel& k = *found->second;
  const std::size_t shared = k.shared_bytes + dynamic;
  check_launch(k, grid, block, shared);
  auto parameters = std::make_shared<std::vector<std::uint64_t>>(k.parameter_bytes / 8 + 1);
  auto* bytes = reinterpret_cast<unsigned char*>(parameters->data());
  for (std::size_t i = 0; i < k.parameters.size(); ++i)
    std::memcpy(bytes + k.parameters[i].offset, arguments[i], k.parameters[i].size);
  rondo::test::submit(stream, [&k, grid, block, shared, parameters] {
    ++launches()[&k];
    run(k, grid, block, reinterpret_cast<unsigned char*>(parameters->data()), shared);
    return true;
  });
  return cudaSuccess;
}
cudaError_t __wrap___cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** arguments,
                                      std::size_t dynamic, cudaStream_t stream) {
  return __wrap_cudaLaunchKernel(kernel, grid, block, arguments, dynamic, stream);
}

// What CUB asks the runtime.
cudaError_t __wrap_cudaGetLastError() { return cudaSuccess; }
cudaError_t __wrap_cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t __wrap_cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t __wrap_cudaSetDevice(int) { return cudaSuccess; }
cudaError_t __wrap_cudaGetDeviceCount(int* count) {
  *count = rondo::cuda::is_simulated() ? rondo::test::host_gpus : 0;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}
cudaError_t __wrap_cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
    case cudaDevAttrMultiProcessorCount:
      *value = 4;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    default:
      *value = 48 * 1024;  // bytes of shared memory
  }
  return cudaSuccess;
}
cudaError_t __wrap_cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  *attributes = {};
  attributes->ptxVersion = attributes->binaryVersion = 90;
  attributes->maxThreadsPerBlock = 1024;
  return cudaSuccess;
}
cudaError_t __wrap_cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void*,
                                                                          int, std::size_t,
                                                                          unsigned) {
  *blocks = 2;
  return cudaSuccess;
}

}  // extern "C"
