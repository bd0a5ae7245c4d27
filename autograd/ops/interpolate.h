#pragma once
// Resampling images: to another size, and at given places. Agrees with the functions of these names
// in torch.nn.functional. f64 and f32; 16-bit floats are computed in f32 and rounded once.

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace rondo {

/// One number, or one for each dimension.
struct ScaleFactors : std::vector<double> {
  ScaleFactors() = default;
  ScaleFactors(double all) : std::vector<double>{all} {}
  ScaleFactors(std::initializer_list<double> each) : std::vector<double>(each) {}
  ScaleFactors(std::vector<double> each) : std::vector<double>(std::move(each)) {}
};

struct InterpolateOptions {
  /// The new sizes of the dimensions after the first two; or one factor for each of them, or for
  /// all: size = floor(size · factor). Exactly one of both.
  Dims size = {};
  ScaleFactors scale_factor = {};
  /// nearest, nearest-exact, area (adaptive_avg_pool); linear of (N, C, L), bilinear and bicubic of
  /// (N, C, H, W), trilinear of (N, C, D, H, W).
  std::string_view mode = "nearest";
  /// Whether the corner elements of input and output are at the same places (not for nearest and
  /// area).
  bool align_corners = false;
};
/// x (N, C, …) resampled. Throws ShapeError for a shape that does not fit the mode, Error for other
/// options.
Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

struct GridSampleOptions {
  std::string_view mode = "bilinear";       // or nearest
  std::string_view padding_mode = "zeros";  // outside of x; or border, reflection
  bool align_corners = false;
};
/// x (N, C, H, W) at the places grid (N, P, Q, 2): y (N, C, P, Q). A place is (column, row), from
/// -1 to 1: the corners of the image, or with align_corners the centres of its corner elements.
Tensor grid_sample(const Tensor& x, const Tensor& grid, const GridSampleOptions& options = {});

struct AffineGridOptions {
  bool align_corners = false;
};
/// The grid (N, H, W, 2) for grid_sample that maps each place of an image of this size (N, C, H, W)
/// by the matrices theta (N, 2, 3).
Tensor affine_grid(const Tensor& theta, const Dims& size, AffineGridOptions options = {});

}  // namespace rondo
