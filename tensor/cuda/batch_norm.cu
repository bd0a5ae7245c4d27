// Batch normalisation for training and inference, forward and backward, including the ReLU and the
// residual addition of a ResNet. The mathematics is that of tensor/cpu/batch_norm.cpp.
//
// Two kernels each read the data once: the first computes sums per channel, the second applies
// them. Between them, one group per channel converts the sums into factors, so that the host needs
// none of these values. Both kernels traverse the data in the same way (Walk), 16 bytes at a time:
// neighbouring channels of a pixel (channels_last), or neighbouring pixels of a plane.
//
// Sums: the data is divided into as many splits as keep the GPU busy; their number depends only on
// sizes and alignment. A thread sums in f32 relative to the channel's first value, which avoids the
// cancellation of E[x^2] - E[x]^2. A block combines its threads' sums in f32, and the splits are
// combined in double, all in a fixed order. So results are bit-identical in every run.

#include "tensor/cuda/batch_norm.cuh"
#include "tensor/cuda/cuda_backend.h"
#include "tensor/scratch.h"

namespace rondo::cuda {
namespace {

/// Computes the sums of all channels, (channels, splits).
template <int V, class Terms>
Tensor sum_channels(int device, const Walk<V>& walk, std::int64_t channels, const Terms& terms) {
  const Dims sizes{channels, std::int64_t{walk.splits}, 2};
  Tensor partial = Tensor::empty(sizes, {.dtype = f32, .device = Device::cuda(device)});
  for_blocks(device, walk.blocks(),
             SumBlock<V, Terms>{walk, terms, static_cast<Pair*>(partial.data_ptr())});
  return partial;
}

/// Calls f.operator()<T, V>() with the type T of x's elements and the number V of elements to
/// process at a time.
template <class F>
void visit_packs(const Layout& layout, std::initializer_list<Tensor> tensors, F&& f) {
  auto with = [&]<class T>() {
    if (layout.fits(Pack<T>::size) && std::all_of(tensors.begin(), tensors.end(), is_aligned)) {
      f.template operator()<T, Pack<T>::size>();
    } else {
      f.template operator()<T, 1>();
    }
  };
  const DType dtype = tensors.begin()->dtype();
  if (dtype == f32) return with.template operator()<float>();
  if (dtype == bf16) return with.template operator()<BFloat16>();
  require<DTypeError>(dtype == f16, "batch_norm: no kernel for ", dtype);
  with.template operator()<Half>();
}

/// Two float vectors with one element for each channel.
struct Factors {
  Tensor memory;
  float *scale, *offset;
  Factors(int device, std::int64_t channels)
      : memory(Tensor::empty({2, channels}, {.dtype = f32, .device = Device::cuda(device)})),
        scale(memory.data_ptr<float>()),
        offset(scale + channels) {}
};

void apply(int device, const Layout& layout, const Tensor& x, const Tensor& mean,
           const Factors& factors, const BatchNormFusion& fusion, const Tensor& y) {
  visit_packs(layout, {x, y, fusion.residual, mean}, [&]<class T, int V>() {
    const T* residual = fusion.residual.defined() ? fusion.residual.data_ptr<T>() : nullptr;
    const Walk<V> walk(layout);
    for_blocks(device, walk.blocks(),
               Apply<T, V>{walk, x.data_ptr<T>(), residual, y.data_ptr<T>(), floats(mean),
                           factors.scale, factors.offset, fusion.relu});
  });
}

}  // namespace

void CudaBackend::batch_norm_kernels(const Tensor& x_, const Tensor& gamma, const Tensor& beta,
                                     const Tensor& running_mean, const Tensor& running_var,
                                     double momentum, double eps, const BatchNormFusion& fusion,
                                     const Tensor& y_, const Tensor& mean, const Tensor& invstd) {
  const MemoryFormat format = x_.suggested_format();
  const Tensor x = dense(x_, format), y = dense_output(y_, format);
  const BatchNormFusion with{.residual = dense(fusion.residual, format), .relu = fusion.relu};
  const Layout layout(x);
  const Factors factors(device_, layout.channels);
  visit_packs(layout, {x}, [&]<class T, int V>() {
    const T* first = x.data_ptr<T>();
    const std::int64_t first_step = layout.channels_last ? 1 : layout.length;
    const Walk<V> walk(layout);
    const Tensor partial = sum_channels(device_, walk, layout.channels,
                                        ForwardTerms<T, V>{x.data_ptr<T>(), first, first_step});
    for_rows(
        device_, layout.channels, walk.splits,
        FinishStatistics<T>{static_cast<const Pair*>(partial.data_ptr()), walk.splits, layout.rows,
                            first, first_step, momentum, eps, floats(mean), floats(invstd),
                            floats(running_mean), floats(running_var),
                            Affine{floats(gamma), floats(beta), factors.scale, factors.offset}});
  });
  apply(device_, layout, x, mean, factors, with, y);
  if (!y.is_same(y_)) do_copy(y, y_);
}

void CudaBackend::do_batch_norm_inference(const Tensor& x_, const Tensor& gamma, const Tensor& beta,
                                          const Tensor& mean, const Tensor& var, double eps,
                                          const BatchNormFusion& fusion, const Tensor& y_) {
  if (x_.numel() == 0) return;
  const MemoryFormat format = x_.suggested_format();
  const Tensor x = dense(x_, format), y = dense_output(y_, format);
  const BatchNormFusion with{.residual = dense(fusion.residual, format), .relu = fusion.relu};
  const Layout layout(x);
  const Factors factors(device_, layout.channels);
  for_each(device_, layout.channels,
           AffineOfRunning{floats(var), eps,
                           Affine{floats(gamma), floats(beta), factors.scale, factors.offset}});
  apply(device_, layout, x, mean, factors, with, y);
  if (!y.is_same(y_)) do_copy(y, y_);
}

void CudaBackend::batch_norm_backward_kernels(const Tensor& dy_, const Tensor& x_, const Tensor& y_,
                                              bool relu, const Tensor& gamma, const Tensor& beta,
                                              const Tensor& mean, const Tensor& invstd,
                                              const Tensor& dx_, const Tensor& dgamma,
                                              const Tensor& dbeta, const Tensor& dresidual_) {
  const MemoryFormat format = x_.suggested_format();
  const Tensor x = dense(x_, format), dy = dense(dy_, format), y = dense(y_, format);
  const Tensor dx = dense_output(dx_, format), dresidual = dense_output(dresidual_, format);
  const Layout layout(x);
  const Factors forward(device_, layout.channels);
  const bool mask_from_x = relu && !y.defined();
  if (mask_from_x) {
    for_each(device_, layout.channels,
             AffineOfBatch{floats(invstd),
                           Affine{floats(gamma), floats(beta), forward.scale, forward.offset}});
  }
  Tensor memory = Tensor::empty({3, layout.channels}, {.dtype = f32, .device = x.device()});
  float *a = floats(memory), *b = a + layout.channels, *d = b + layout.channels;
  visit_packs(layout, {x, dy, y, dx, dresidual, mean}, [&]<class T, int V>() {
    const Gradient<T, V> gradient{dy.data_ptr<T>(), y.defined() ? y.data_ptr<T>() : nullptr,
                                  mask_from_x ? forward.scale : nullptr, forward.offset};
    const Walk<V> walk(layout);
    const Tensor partial =
        sum_channels(device_, walk, layout.channels,
                     BackwardTerms<T, V>{x.data_ptr<T>(), gradient, floats(mean)});
    for_rows(device_, layout.channels, walk.splits,
             FinishGradient{static_cast<const Pair*>(partial.data_ptr()), walk.splits, layout.rows,
                            floats(gamma), floats(invstd), floats(dgamma), floats(dbeta), a, b, d});
    for_blocks(device_, walk.blocks(),
               ApplyGradient<T, V>{walk, x.data_ptr<T>(), gradient, dx.data_ptr<T>(),
                                   dresidual.defined() ? dresidual.data_ptr<T>() : nullptr,
                                   floats(mean), a, b, d});
  });
  if (!dx.is_same(dx_)) do_copy(dx, dx_);
  if (dresidual.defined() && !dresidual.is_same(dresidual_)) do_copy(dresidual, dresidual_);
}

}  // namespace rondo::cuda
