#pragma once
// The algorithms of convolution on the CPU: a list that is tried in order. The first whose `suits`
// agrees computes; oneDNN is last and suits everything.
//
//   RONDO_CONV=winograd,onednn      only these, in the order of the list below
//
// Tensors are dense channels_last, weights dense, and their dtype is one that oneDNN has (f32,
// bf16); conv.cpp sees to that.

#include <span>
#include <string>

#include "tensor/cpu/onednn.h"

namespace rondo::cpu {

struct ConvAlgorithm {
  const char* name;
  /// Whether it computes the problem (and its pass), and is likely to be faster than those after
  /// it.
  bool (*suits)(const Conv2dProblem& problem);
  /// y = x ⋆ w + bias; bias may be undefined. Null for an algorithm without this pass.
  void (*forward)(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& y,
                  const Conv2dParams& params);
  void (*backward_input)(const Tensor& dy, const Tensor& w, const Tensor& dx,
                         const Conv2dParams& params);
  /// dbias may be undefined.
  void (*backward_weight)(const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& dbias,
                          const Conv2dParams& params);
};

/// The problem of a pass; of gradients, x and y have the shapes of dx and dy.
inline Conv2dProblem describe(Conv2dProblem::Pass pass, const Tensor& x, const Tensor& w,
                              const Tensor& y, const Conv2dParams& params, bool bias) {
  return {.pass = pass,
          .dtype = x.dtype(),
          .n = x.size(0),
          .c = x.size(1),
          .h = x.size(2),
          .w = x.size(3),
          .k = w.size(0),
          .r = w.size(2),
          .s = w.size(3),
          .p = y.size(2),
          .q = y.size(3),
          .params = params,
          .bias = bias};
}

namespace conv {
extern const ConvAlgorithm winograd_groups, winograd_2x2, few_pixels, winograd, one_pixel,
    depthwise, implicit_gemm, onednn;
}

/// Those in use, in the order in which they are tried. Throws Error where RONDO_CONV names an
/// unknown one.
std::span<const ConvAlgorithm* const> conv_algorithms();

/// The first that suits. A profile that records shapes shows its name next to them.
const ConvAlgorithm& choose_conv(const Conv2dProblem& problem);

/// Only these from now on, "winograd,onednn", as RONDO_CONV says it; "": the default. oneDNN
/// computes what none of them suits. Throws Error for an unknown name. Not while another thread
/// convolves.
void set_conv_algorithms(const std::string& names);

/// For a backward_weight that sums in f32 and knows no bias.
void sum_in_f32(void (*compute)(const Tensor& dy, const Tensor& x, const Tensor& dw,
                                const Conv2dParams& params),
                const Tensor& dy, const Tensor& x, const Tensor& dw, const Tensor& dbias,
                const Conv2dParams& params);

/// A vector of channels (K) as (1, K, 1, 1).
Tensor as_channels(const Tensor& v);

}  // namespace rondo::cpu
