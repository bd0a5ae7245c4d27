#pragma once
// NVIDIA's libraries, loaded when they are first needed.
//
// cuBLASLt, cuDNN and NCCL together take 60 ms and 200 MB to load, which a program that does not
// use them should not pay, and a machine without them can still run everything else. Each has a
// table of the functions that rondo uses (CublasLt, …); a table can be filled by a test as well,
// with functions that compute on the host.

#include <initializer_list>
#include <string>
#include <vector>

namespace rondo::cuda {

class SharedLibrary {
 public:
  /// Opens the first of `sonames` that is found: as the system finds libraries, in the CUDA toolkit
  /// (CUDA_HOME, /usr/local/cuda), or in the wheels of the active Python environment
  /// (VIRTUAL_ENV, CONDA_PREFIX). Throws CudaError naming the library and what was tried.
  SharedLibrary(const std::string& name, std::initializer_list<const char*> sonames);

  /// A function's address. Throws CudaError naming function and file when this version lacks it.
  template <class Function>
  void load(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(find(symbol));
  }
  const std::string& path() const { return path_; }

 private:
  void* find(const char* symbol) const;

  std::string name_, path_;
  void* handle_ = nullptr;  // for ever: kernels may still run when statics go
};

/// Folders to look into besides those of the system, the best guess first.
std::vector<std::string> cuda_library_folders();

}  // namespace rondo::cuda
