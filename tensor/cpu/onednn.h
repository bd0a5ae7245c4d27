#pragma once
// A small interface to oneDNN. Private to tensor/cpu: no header that other folders include may
// include dnnl.hpp.
//
// A oneDNN primitive is a kernel generated for one exact problem (shapes, layouts, dtype, threads).
// Creating it takes milliseconds, so it is created once: `convolution` and `matmul` look their
// problem up in a cache (of 1024 entries; a full cache is cleared). rondo provides the scratch
// memory (scratchpad_mode::user), so that it comes from the caching allocator.
//
// Note [Layouts on the CPU]
// Activations are channels_last. With AVX-512, some convolutions are much faster in oneDNN's
// blocked layout nChw16c (the blocks of 16 channels are outermost):
//   - exactly 16 input and output channels: the blocked layout *is* channels_last, byte for byte;
//   - from 512 channels on, if output planes have at most 16 pixels (the last stage of a CIFAR
//     ResNet-18): the weights are larger than a core's cache, and the channels_last kernel reads
//     them again for every few pixels. For 512 to 512 channels at 4x4, batch 128, on a Zen 5,
//     including reordering: 35.9 ms channels_last, 20.1 ms blocked; the input's gradient 25.0 and
//     16.9 ms.
// Narrower layers are faster in channels_last when their tensors must be reordered before and
// after. The rule depends only on shapes: a choice by timing would make two runs differ in their
// last bits. Weights are reordered from their dense copy to the layout that the kernel needs
// (Note [Prepared weights]).

#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tensor/backend.h"

namespace rondo::cpu {

/// A primitive with the layouts that it needs.
struct Primitive {
  dnnl::primitive run;
  dnnl::memory::desc source, weights, bias, destination, scratchpad;
  bool blocked = false;  // source and destination in blocks of 16 channels, otherwise channels_last
  bool fast = true;      // not one of oneDNN's plain loops
};

struct Conv2dProblem {
  enum class Pass { forward, backward_input, backward_weight };
  Pass pass;
  DType dtype;
  std::int64_t n, c, h, w, k, r, s, p, q;
  Conv2dParams params;
  bool bias;
  bool operator==(const Conv2dProblem&) const = default;
};
/// Throws Error describing the problem if oneDNN has no kernel for it.
std::shared_ptr<const Primitive> convolution(const Conv2dProblem& problem);

/// a (batch, m, k) · c (batch, k, n) -> y (batch, m, n); a batch of 1 broadcasts. If the strides of
/// c are 0, c has the layout Primitive::weights, which oneDNN chooses.
struct MatmulProblem {
  DType dtype;
  std::int64_t batch, a_batch, c_batch, m, n, k;
  std::int64_t a_strides[3], c_strides[3], y_strides[3];
  bool bias;
};
std::shared_ptr<const Primitive> matmul(const MatmulProblem& problem);

/// On bytes: x u8 (m, k) · w i8 (n, k) transposed -> sums i32 (m, n).
std::shared_ptr<const Primitive> int8_matmul(std::int64_t m, std::int64_t n, std::int64_t k);
/// x u8 ⋆ w i8 -> y f32 = relu?(scales[k] (x - zero_point) ⋆ w + bias[k]).
struct Int8Conv2dProblem {
  Conv2dProblem shape;  // its pass and dtype are ignored
  std::vector<float> scales;
  bool zero_point, relu;
  bool operator==(const Int8Conv2dProblem&) const = default;
};
/// Not cached, because it contains a layer's scales. The zero point is passed at execution:
/// int8_zero_point (i32, 1). With oneDNN version 3, so are the scales: int8_scales (f32, K).
Primitive int8_convolution(const Int8Conv2dProblem& problem);
inline constexpr int int8_zero_point = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC;
#if DNNL_VERSION_MAJOR >= 3
inline constexpr int int8_scales = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
inline constexpr bool int8_scales_are_arguments = true;
#else
inline constexpr int int8_scales = 0;
inline constexpr bool int8_scales_are_arguments = false;
#endif
/// oneDNN version 2 scales after it adds the bias, so the caller must divide the bias by the scale.
inline constexpr bool int8_scales_bias = DNNL_VERSION_MAJOR < 3;
/// Whether the processor sums four products of bytes at once in 32 bits (VNNI). On x86 without
/// VNNI, oneDNN's kernels sum two products in 16 bits, where 255 · 127 · 2 overflows.
bool has_int8_dot_product();

/// Whether oneDNN has kernels for `dtype` on this machine (f32; bf16 from AVX-512 on).
bool has_dtype(DType dtype);
/// Whether oneDNN generates kernels for the current processor (x86-64). On other processors most
/// kernels are loops in C++, as in Debian's build for arm64. A oneDNN built with Arm's kernel
/// library is not detected.
bool has_generated_kernels();
/// Whether the processor multiplies bf16 at twice f32's rate. Without this, bf16 is first widened
/// to f32.
bool has_bf16_products();

const dnnl::engine& engine();
/// Runs a primitive on the calling thread's stream, with scratch memory from the caching allocator.
void execute(const Primitive& primitive, std::unordered_map<int, dnnl::memory> arguments);
/// Copies between two descriptions of the same tensor.
void reorder(const dnnl::memory& from, const dnnl::memory& to);
inline dnnl::memory memory_of(const dnnl::memory::desc& desc, void* data) {
  return dnnl::memory(desc, engine(), data);
}
dnnl::memory::data_type data_type_of(DType dtype);
/// The memory of a dense channels_last tensor (N, C, H, W).
dnnl::memory channels_last(const Tensor& t);

}  // namespace rondo::cpu
