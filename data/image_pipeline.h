#pragma once
// ImagePipeline: converts a decoded picture of any size to the network's input.
//
//   ImagePipeline augment({RandomResizedCrop{224, 224}, RandomHorizontalFlip{},
//                          ColorJitter{.brightness = 0.4}, ToFloat{}, Normalize{mean, std}},
//                         {.seed = 1});
//   ImagePipeline plain({Resize{256}, CenterCrop{224, 224}, ToFloat{}, Normalize{mean, std}});
//
// has the form and meaning of torchvision.transforms.Compose: the steps run one after another, on
// bytes. ToFloat and Normalize come last, combined into one table of 256 floats per channel.
// ImageTransform (data/transforms.h) instead folds its steps into a single pass, which is possible
// because all of its images have one size.
//
// Random choices are keyed by sample (Note [Augmentation is keyed by sample]): step k of sample i
// in epoch e draws from blocks 256 i + 16 k … of Philox stream (seed, picture_streams + e).
//
// Read next: data/image_folder.h, which provides the pictures.

#include <array>
#include <memory>
#include <variant>
#include <vector>

#include "data/image_ops.h"
#include "data/transforms.h"

namespace rondo::data {

/// If width is 0, scales the shorter side to `height` pixels; else scales to exactly height ×
/// width.
struct Resize {
  std::int64_t height = 256, width = 0;
};
/// The middle of the picture. Smaller pictures get a black border.
struct CenterCrop {
  std::int64_t height = 224, width = 224;
};
/// A window of random area (a share of the picture's area, uniform in `scale`) and random shape
/// (width over height, log-uniform in `ratio`) at a random place, scaled to height × width. If ten
/// tries do not fit, uses the largest centred window that `ratio` allows
/// (torchvision.transforms.RandomResizedCrop).
struct RandomResizedCrop {
  std::int64_t height = 224, width = 224;
  std::array<double, 2> scale{0.08, 1.0};
  std::array<double, 2> ratio{3.0 / 4.0, 4.0 / 3.0};
};
/// Multiplies brightness, contrast and saturation each by a factor uniform in [max(0, 1 - x), 1 +
/// x], and rotates the hue by an amount uniform in [-x, x], where x is the member of that name. The
/// order is random; adjustments with x = 0 are skipped (torchvision.transforms.ColorJitter).
struct ColorJitter {
  double brightness = 0, contrast = 0, saturation = 0, hue = 0;
};

using PictureStep = std::variant<Resize, CenterCrop, RandomResizedCrop, RandomHorizontalFlip,
                                 ColorJitter, ToFloat, Normalize>;

/// What ColorJitter draws: the factors, and the order of the four adjustments (0 brightness, 1
/// contrast, 2 saturation, 3 hue).
struct Jitter {
  std::array<double, 4> factors{1, 1, 1, 0};
  std::array<int, 4> order{0, 1, 2, 3};
  bool operator==(const Jitter&) const = default;
};

class ImagePipeline {
 public:
  /// Up to 16 steps in any order, except that ToFloat and then Normalize must come last. Throws
  /// Error naming the step that is out of order or has an invalid argument. The options are
  /// ImageTransform's. Without ToFloat, `format` is ignored and the result is planes of bytes, the
  /// input of ImageTransform.
  explicit ImagePipeline(std::vector<PictureStep> steps, ImageTransformOptions options = {});
  /// No steps: pictures are returned unchanged.
  ImagePipeline();

  /// Runs the steps on bytes, for sample `index` of `epoch` (or Draw::stream): u8 (H, W, 3) in and
  /// out. Throws ShapeError or DTypeError for other pictures.
  Tensor apply(Tensor picture, std::int64_t index, std::uint64_t epoch = 0) const;
  /// Runs ToFloat and Normalize: pictures of one size become (N, 3, H, W), f32, or u8 without
  /// ToFloat. Throws ShapeError naming the first picture of another size.
  Tensor stack(const std::vector<Tensor>& pictures) const;

  /// The random choices of step `step` for this sample.
  Window draw_window(const RandomResizedCrop& crop, std::size_t step, std::int64_t index,
                     std::uint64_t epoch, std::int64_t height, std::int64_t width) const;
  Jitter draw_jitter(const ColorJitter& jitter, std::size_t step, std::int64_t index,
                     std::uint64_t epoch) const;

 private:
  std::shared_ptr<const std::vector<PictureStep>> steps_;  // also those of copies
  ImageTransformOptions options_;
  bool to_float_ = false;
  std::vector<float> table_;  // the output value for each byte of each of the three channels
};

}  // namespace rondo::data
