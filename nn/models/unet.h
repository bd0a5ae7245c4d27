#pragma once
// U-Net (Ronneberger et al. 2015), for the segmentation of images: four steps down, four steps up,
// and the features of each size are passed across. As in most of today's versions, convolutions
// keep the size and have batch norms. The keys are those of the widespread PyTorch version with
// inc, down1 … down4, up1 … up4 and outc. 31,037,633 parameters with 3 input channels and 1 class.

#include "nn/containers.h"
#include "nn/conv2d.h"
#include "nn/conv_transpose2d.h"
#include "nn/module.h"

namespace rondo::nn {

struct UNetOptions {
  std::int64_t in_channels = 3;
  std::int64_t num_classes = 2;
  std::int64_t width = 64;  // the channels at full size; each step down doubles them
};

/// Twice: a 3x3 convolution, a batch norm, relu.
struct UNetDoubleConv : Module {
  Sequential double_conv;

  UNetDoubleConv(std::int64_t in_channels, std::int64_t out_channels);
  Tensor forward(const Tensor& x) override { return double_conv(x); }
  void visit(Visitor& v) override { v.child("double_conv", double_conv); }
};

/// Half the size.
struct UNetDown : Module {
  Sequential maxpool_conv;

  UNetDown(std::int64_t in_channels, std::int64_t out_channels);
  Tensor forward(const Tensor& x) override { return maxpool_conv(x); }
  void visit(Visitor& v) override { v.child("maxpool_conv", maxpool_conv); }
};

/// Twice the size of `below`, joined with `across`, which may be up to a pixel larger.
struct UNetUp : Module {
  ConvTranspose2d up;
  UNetDoubleConv conv;

  UNetUp(std::int64_t in_channels, std::int64_t out_channels);
  Tensor join(const Tensor& below, const Tensor& across);
  Tensor forward(const Tensor& below) override;
  void visit(Visitor& v) override;
};

struct UNetOut : Module {
  Conv2d conv;

  UNetOut(std::int64_t in_channels, std::int64_t num_classes) : conv(in_channels, num_classes, 1) {}
  Tensor forward(const Tensor& x) override { return conv(x); }
  void visit(Visitor& v) override { v.child("conv", conv); }
};

/// x (N, in_channels, H, W), H and W at least 16, to logits (N, num_classes, H, W).
struct UNet : Module {
  UNetDoubleConv inc;
  UNetDown down1, down2, down3, down4;
  UNetUp up1, up2, up3, up4;
  UNetOut outc;

  explicit UNet(const UNetOptions& options = {});
  Tensor forward(const Tensor& x) override;
  void visit(Visitor& v) override;
};

}  // namespace rondo::nn
