#pragma once
// oneDNN, reduced to what rondo asks of it. Private to tensor/cpu: dnnl.hpp stays out of every
// header that others include.
//
// A oneDNN primitive is a kernel generated for one exact problem (shapes, layouts, dtype, threads),
// which takes milliseconds to make and must therefore be made once: `convolution` and `matmul` look
// their problem up in one cache (of 1024 entries: when it is full, it starts anew). Scratch memory
// is ours (scratchpad_mode::user), so that it comes from the caching allocator.
//
// Note [Layouts on the CPU]
// Activations travel channels_last. Where AVX-512 is to be had, some convolutions are much faster
// in oneDNN's blocked layout nChw16c (the blocks of 16 channels are outermost):
//   - exactly 16 channels, in and out: there the blocked layout *is* channels_last, byte for byte;
//   - from 512 channels on where output planes have at most 16 pixels (the last stage of a CIFAR
//     ResNet-18): the weights are larger than a core's cache, and the channels_last kernel reads
//     them anew for every few pixels. 512 to 512 channels at 4x4, batch 128, on a Zen 5, reordering
//     included: 35.9 ms channels_last, 20.1 ms blocked, the input's gradient 25.0 and 16.9 ms.
// Narrower layers are faster channels_last once their tensors must be reordered on the way in and
// out. The rule depends on shapes alone: a choice made by timing would make two runs differ in
// their last bits. Weights are reordered from their dense master copy to whatever the kernel wants
// (Note [Prepared weights]).

#include <dnnl.hpp>
#include <initializer_list>
#include <memory>
#include <vector>

#include "tensor/backend.h"

namespace rondo::cpu {

/// A primitive with the layouts it wants.
struct Primitive {
  dnnl::primitive run;
  dnnl::memory::desc source, weights, bias, destination, scratchpad;
  bool blocked = false;  // source and destination in blocks of 16 channels, else channels_last
  bool fast = true;      // more than oneDNN's plain loops
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
/// Throws Error naming the problem where oneDNN has no kernel for it.
std::shared_ptr<const Primitive> convolution(const Conv2dProblem& problem);

/// a (batch, m, k) · c (batch, k, n) -> y (batch, m, n); a batch of 1 broadcasts.
struct MatmulProblem {
  DType dtype;
  std::int64_t batch, a_batch, c_batch, m, n, k;
  std::int64_t a_strides[3], c_strides[3], y_strides[3];
  bool bias;
};
std::shared_ptr<const Primitive> matmul(const MatmulProblem& problem);

/// Of bytes: x u8 (m, k) · w i8 (n, k) transposed -> sums i32 (m, n).
std::shared_ptr<const Primitive> int8_matmul(std::int64_t m, std::int64_t n, std::int64_t k);
/// x u8 ⋆ w i8 -> y f32 = relu?(scales[k] (x - zero_point) ⋆ w + bias[k]).
struct Int8Conv2dProblem {
  Conv2dProblem shape;  // its pass and dtype are not looked at
  std::vector<float> scales;
  bool zero_point, relu;
  bool operator==(const Int8Conv2dProblem&) const = default;
};
/// Not cached, having a layer's scales in it; a zero point is an argument of the execution:
/// int8_zero_point (i32, 1). So are, for version 3, the scales: int8_scales (f32, K).
Primitive int8_convolution(const Int8Conv2dProblem& problem);
inline constexpr int int8_zero_point = DNNL_ARG_ATTR_ZERO_POINTS | DNNL_ARG_SRC;
#if DNNL_VERSION_MAJOR >= 3
inline constexpr int int8_scales = DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS;
inline constexpr bool int8_scales_are_arguments = true;
#else
inline constexpr int int8_scales = 0;
inline constexpr bool int8_scales_are_arguments = false;
#endif
/// Version 2 scales after the bias has been added, which must then be divided by the scale.
inline constexpr bool int8_scales_bias = DNNL_VERSION_MAJOR < 3;
/// Whether the processor sums four products of bytes in 32 bits at once (VNNI). oneDNN's kernels
/// for x86 without it sum two in 16 bits, where 255 · 127 · 2 does not fit.
bool has_int8_dot_product();

/// Whether oneDNN has kernels for `dtype` on this machine (f32; bf16 from AVX-512 on).
bool has_dtype(DType dtype);
/// Whether oneDNN writes its kernels for the processor that it runs on (x86-64). Elsewhere most
/// are loops in C++, as in Debian's for arm64; one built with Arm's library of kernels is not
/// asked.
bool has_generated_kernels();
/// Whether the processor multiplies bf16, at twice f32's rate; else it is widened first.
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
