// What the convolution layers have in common (see conv_nd.h).

#include "nn/conv_nd.h"

#include <algorithm>
#include <cmath>

#include "nn/init.h"
#include "tensor/creation.h"

namespace rondo::nn::detail {
namespace {

bool at_least(const Dims& sizes, std::int64_t least) {
  return std::ranges::all_of(sizes, [least](std::int64_t size) { return size >= least; });
}

}  // namespace

void ConvLayer::check(const char* layer) const {
  require<ShapeError>(in_channels > 0 && out_channels > 0 && groups > 0, layer, ": ", in_channels,
                      " to ", out_channels, " channels in ", groups,
                      " groups, but all three must be positive");
  require<ShapeError>(in_channels % groups == 0 && out_channels % groups == 0, layer, ": ",
                      in_channels, " to ", out_channels, " channels cannot be divided into ",
                      groups, " groups: groups must divide both");
  require<ShapeError>(at_least(kernel, 1), layer, ": kernel size ", kernel,
                      ", but it must be at least 1");
  require<ShapeError>(at_least(stride, 1) && at_least(dilation, 1) && at_least(padding, 0), layer,
                      ": stride ", stride, ", dilation ", dilation, ", padding ", padding,
                      "; stride and dilation must be at least 1, padding at least 0");
  for (std::int64_t i = 0; i < output_padding.size(); ++i)
    require<ShapeError>(
        output_padding[i] >= 0 && output_padding[i] < std::max(stride[i], dilation[i]), layer,
        ": output padding ", output_padding, " must be smaller than stride or dilation");
}

Dims ConvLayer::take_outer_padding(const char* layer) {
  Dims sides;
  bool needs_pad = padding_mode != PadMode::constant;
  for (std::int64_t i = kernel.size() - 1; i >= 0; --i) {
    std::int64_t after = padding[i];
    if (same_padding) {
      require<ShapeError>(stride[i] == 1 && padding[i] == 0, layer,
                          ": same_padding needs stride 1 and no other padding, but stride is ",
                          stride[i], " and padding ", padding[i]);
      const std::int64_t total = dilation[i] * (kernel[i] - 1);
      padding[i] = total / 2;
      after = total - total / 2;
    }
    sides.push_back(padding[i]);
    sides.push_back(after);
    needs_pad = needs_pad || padding[i] != after;
  }
  if (!needs_pad) return {};
  padding = Dims::filled(padding.size(), 0);
  return sides;
}

Tensor ConvLayer::drawn_weight() const {
  Dims sizes = is_transposed() ? Dims{in_channels, out_channels / groups}
                               : Dims{out_channels, in_channels / groups};
  for (std::int64_t size : kernel) sizes.push_back(size);
  const Tensor weight = empty(sizes);
  init::kaiming_uniform_(weight, {.slope = std::sqrt(5.0)});
  return weight.requires_grad_();
}

Tensor ConvLayer::drawn_bias(const Tensor& weight) const {
  const Tensor bias = empty({out_channels});
  const double bound = 1 / std::sqrt(static_cast<double>(init::calculate_fans(weight).in));
  init::uniform_(bias, -bound, bound);
  return bias.requires_grad_();
}

Dims ConvLayer::output_padding_for(const Module& layer, const Dims& input, Dims output) const {
  const std::int64_t dims = kernel.size(), outer = input.size() - dims;
  require<ShapeError>(output.size() == dims || output.size() == input.size(), type_name(layer),
                      ": output size ", output, " has neither ", dims, " nor ", input.size(),
                      " numbers");
  while (output.size() > dims) output.erase(0);
  Dims more;
  for (std::int64_t i = 0; i < dims; ++i) {
    const std::int64_t least =
        (input[outer + i] - 1) * stride[i] - 2 * padding[i] + dilation[i] * (kernel[i] - 1) + 1;
    more.push_back(output[i] - least);
    require<ShapeError>(more[i] >= 0 && more[i] < stride[i], type_name(layer), ": output size ",
                        output, ", but dimension ", i, " can have from ", least, " to ",
                        least + stride[i] - 1, " elements for input ", input);
  }
  return more;
}

void check_image(const Module& layer, const Tensor& x, std::int64_t channels, std::int64_t dims) {
  const char* sizes = dims == 1 ? ", L)" : dims == 2 ? ", H, W)" : ", D, H, W)";
  if (x.defined() && (x.dim() == dims + 1 || x.dim() == dims + 2) &&
      x.size(x.dim() - dims - 1) == channels)
    return;  // the name of the type is needed for errors only
  x.require_defined(type_name(layer), "the input");
  rondo::detail::fail<ShapeError>({type_name(layer), ": input ", x.shape(), " is neither (N, ",
                                   channels, sizes, " nor (", channels, sizes});
}

}  // namespace rondo::nn::detail
