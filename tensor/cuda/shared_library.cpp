#include "tensor/cuda/shared_library.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "tensor/cuda/runtime.h"

namespace rondo::cuda {
namespace {

namespace fs = std::filesystem;

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

/// Appends PREFIX/lib/python3.*/site-packages/nvidia/*/lib: one folder for each of NVIDIA's wheels.
void append_wheels(const std::string& prefix, std::vector<std::string>& folders) {
  if (prefix.empty()) return;
  std::error_code error;
  for (const auto& python : fs::directory_iterator(fs::path(prefix) / "lib", error)) {
    if (!python.path().filename().string().starts_with("python3")) continue;
    const fs::path nvidia = python.path() / "site-packages/nvidia";
    for (const auto& wheel : fs::directory_iterator(nvidia, error))
      folders.push_back((wheel.path() / "lib").string());
  }
}

}  // namespace

std::vector<std::string> cuda_library_folders() {
  std::vector<std::string> folders;
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"}) {
    const std::string home = environment(name);
    if (!home.empty()) folders.push_back(home + "/lib64");
  }
  folders.emplace_back("/usr/local/cuda/lib64");
  append_wheels(environment("VIRTUAL_ENV"), folders);
  append_wheels(environment("CONDA_PREFIX"), folders);
  return folders;
}

SharedLibrary::SharedLibrary(const std::string& name, std::initializer_list<const char*> sonames)
    : name_(name) {
  std::vector<std::string> folders = cuda_library_folders();
  folders.insert(folders.begin(), "");  // the system's own search
  std::string reason;
  for (const std::string& folder : folders) {
    for (const char* soname : sonames) {
      path_ = folder.empty() ? soname : folder + "/" + soname;
      if (!folder.empty() && !fs::exists(path_)) continue;
      handle_ = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
      if (handle_ != nullptr) return;
      if (const char* error = dlerror(); !folder.empty() && error != nullptr)
        reason = concat("; ", error);
    }
  }
  std::string names, places;
  for (const char* soname : sonames) names += (names.empty() ? "" : " or ") + std::string(soname);
  for (const std::string& folder : folders)
    if (!folder.empty()) places += ", " + folder;
  throw CudaError(concat(name, " is required, but ", names,
                         " was not found where the system looks for libraries", places, reason));
}

void* SharedLibrary::find(const char* symbol) const {
  void* function = dlsym(handle_, symbol);
  require<CudaError>(function != nullptr, path_, " has no ", symbol, ": this ", name_,
                     " is too old");
  return function;
}

}  // namespace rondo::cuda
