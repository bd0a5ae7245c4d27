// Which algorithm computes a convolution.

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "tensor/cpu/conv/algorithm.h"
#include "tensor/cpu/cpu_backend.h"
#include "tensor/cpu/isa/table.h"
#include "tensor/record_function.h"

namespace rondo::cpu {
namespace {

// In the order in which they are tried.
constexpr std::array all = {&conv::winograd_groups, &conv::winograd_2x2, &conv::few_pixels,
                            &conv::winograd,        &conv::one_pixel,    &conv::depthwise,
                            &conv::implicit_gemm,   &conv::onednn};

std::vector<const ConvAlgorithm*> by_default() {
  std::vector<const ConvAlgorithm*> list;
  // oneDNN's kernels for AVX-512 are faster than blocks of pixels; nobody has compared products of
  // pixels and sums along rows with them.
  const bool has_avx2 = std::string_view(kernels().name) == "avx2";
  for (const ConvAlgorithm* algorithm : all) {
    if (algorithm == &conv::one_pixel && !(has_avx2 && has_generated_kernels())) continue;
    if ((algorithm == &conv::implicit_gemm || algorithm == &conv::depthwise) &&
        has_generated_kernels() && !has_avx2)
      continue;
    list.push_back(algorithm);
  }
  return list;
}

std::vector<const ConvAlgorithm*> named(std::string_view names, const char* what) {
  if (names.empty()) return by_default();
  std::array<bool, all.size()> is_named{};
  while (true) {
    const std::size_t end = std::min(names.find(','), names.size());
    std::string_view name = names.substr(0, end);
    while (name.starts_with(' ')) name.remove_prefix(1);
    while (name.ends_with(' ')) name.remove_suffix(1);
    std::string known;
    bool found = false;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (name == all[i]->name) found = is_named[i] = true;
      known += concat(i > 0 ? ", " : "", all[i]->name);
    }
    // Not require: the error would begin with the op that happened to run first.
    if (!found)
      throw Error(
          concat(what, ": unknown convolution algorithm \"", name, "\"; use any of ", known));
    if (end == names.size()) break;
    names.remove_prefix(end + 1);
  }
  is_named.back() = true;  // oneDNN computes what the others do not suit
  std::vector<const ConvAlgorithm*> list;
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_named[i]) list.push_back(all[i]);
  return list;
}

std::vector<const ConvAlgorithm*>& in_use() {
  static auto* list = [] {
    for (const char* old : {"RONDO_WINOGRAD", "RONDO_IMPLICIT_GEMM"})
      if (std::getenv(old) != nullptr)
        throw Error(concat(old,
                           " is no longer read; use RONDO_CONV, for instance "
                           "RONDO_CONV=onednn for direct sums"));
    const char* wish = std::getenv("RONDO_CONV");
    return new std::vector<const ConvAlgorithm*>(named(wish != nullptr ? wish : "", "RONDO_CONV"));
  }();
  return *list;
}

}  // namespace

std::span<const ConvAlgorithm* const> conv_algorithms() { return in_use(); }

const ConvAlgorithm& choose_conv(const Conv2dProblem& problem) {
  for (const ConvAlgorithm* algorithm : in_use()) {
    if (!algorithm->suits(problem)) continue;
    if (is_recording()) record_detail(algorithm->name);
    return *algorithm;
  }
  return conv::onednn;
}

void set_conv_algorithms(const std::string& names) {
  in_use() = named(names, "set_conv_algorithms");
}

void sum_in_f32(void (*compute)(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                const Conv2dParams& params),
                const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& dbias,
                const Conv2dParams& params) {
  CpuBackend& cpu = CpuBackend::instance();
  const Tensor sums = dw.dtype() == f32 ? dw : Tensor::empty(dw.shape());
  compute(dy, x, sums, params);
  if (!sums.is_same(dw)) cpu.do_copy(sums, dw);
  if (dbias.defined()) cpu.do_reduce(ReductionOp::sum, dy, as_channels(dbias));
}

Tensor as_channels(const Tensor& v) {
  return v.as_view({1, v.size(0), 1, 1}, {0, v.stride(0), 0, 0}, v.storage_offset());
}

}  // namespace rondo::cpu
