#pragma once
// NVIDIA's libraries, loaded when they are first needed.
//
// cuBLASLt, cuDNN and NCCL together take 60 ms and 200 MB to load. A program that does not use them
// should not pay for that, and a machine without them can still run everything else. Each library
// has a table of the functions that rondo uses (CublasLt, …). A test can also fill a table with
// functions that compute on the host.

#include <initializer_list>
#include <string>
#include <vector>

namespace rondo::cuda {

class SharedLibrary {
 public:
  /// Opens the first of `sonames` that is found: in the system's library folders, in the CUDA
  /// toolkit (CUDA_HOME, /usr/local/cuda), or in the wheels of the active Python environment
  /// (VIRTUAL_ENV, CONDA_PREFIX). Throws CudaError with the library's name and the places tried.
  SharedLibrary(const std::string& name, std::initializer_list<const char*> sonames);

  /// A function's address. Throws CudaError with the function and the file if this version lacks
  /// it.
  template <class Function>
  void load(const char* symbol, Function*& function) const {
    function = reinterpret_cast<Function*>(find(symbol));
  }
  const std::string& path() const { return path_; }

 private:
  void* find(const char* symbol) const;

  std::string name_, path_;
  void* handle_ = nullptr;  // never closed: kernels may run during static destruction
};

/// Folders to search in addition to those of the system, in order of preference.
std::vector<std::string> cuda_library_folders();

}  // namespace rondo::cuda
