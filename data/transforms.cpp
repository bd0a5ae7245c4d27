// All steps in one pass. Each output row takes a run of bytes from a row of the source, and its
// channel's table maps a byte to a value. Padding and erased boxes are filled.
//
// Random words of sample i in epoch e: Philox stream (seed, augmentation_streams + e), blocks 16 i
// … 16 i + 15. Block 0: top, left, flip, whether to erase; block 1: centre of the cutout; block 2 +
// t: area, ratio, top and left of try t of RandomErasing.

#include "data/transforms.h"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "tensor/random.h"

#ifdef RONDO_HAS_CUDA
#include "data/cuda/augment.h"
#endif

namespace rondo::data {
namespace {

constexpr std::uint64_t blocks_per_sample = 16;

/// An integer in [0, range).
std::int64_t below(std::uint32_t word, std::int64_t range) {
  return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(range) >> 32);
}

Augmentation::Box draw_erased(const RandomErasing& erasing, const Philox& random,
                              std::uint64_t first_block, std::int64_t height, std::int64_t width) {
  const double low = std::log(erasing.ratio[0]), high = std::log(erasing.ratio[1]);
  for (std::uint64_t t = 0; t < 10; ++t) {
    const auto words = random.block(first_block + 2 + t);
    const double share = std::lerp(erasing.scale[0], erasing.scale[1], uniform_float(words[0]));
    const double area = share * static_cast<double>(height * width);
    const double ratio = std::exp(std::lerp(low, high, uniform_float(words[1])));
    const std::int64_t h = std::llround(std::sqrt(area * ratio));
    const std::int64_t w = std::llround(std::sqrt(area / ratio));
    if (h >= height || w >= width) continue;
    const std::int64_t top = below(words[2], height - h + 1), left = below(words[3], width - w + 1);
    return {top, left, top + h, left + w};
  }
  return {};
}

Augmentation::Box draw_cut(const Cutout& cutout, const Philox& random, std::uint64_t first_block,
                           std::int64_t height, std::int64_t width) {
  const auto words = random.block(first_block + 1);
  const std::int64_t top = below(words[0], height) - cutout.side / 2;
  const std::int64_t left = below(words[1], width) - cutout.side / 2;
  return {std::max<std::int64_t>(top, 0), std::max<std::int64_t>(left, 0),
          std::min(top + cutout.side, height), std::min(left + cutout.side, width)};
}

/// How to compose a row of the output, the same for all rows of an image: `before` columns of
/// padding, then `run` source columns starting at `from` in direction `step`, then padding to the
/// end.
struct RowPlan {
  std::int64_t before, run, from, step;
};

RowPlan plan_row(const Augmentation& drawn, std::int64_t padding, std::int64_t in_width,
                 std::int64_t out_width) {
  // Columns of the window that are inside the image, before flipping.
  const std::int64_t start = drawn.left - padding;  // source column of window column 0
  const std::int64_t first = std::clamp<std::int64_t>(-start, 0, out_width);
  const std::int64_t last = std::clamp<std::int64_t>(in_width - start, first, out_width);
  if (!drawn.flip) return {first, last - first, start + first, 1};
  return {out_width - last, last - first, start + last - 1, -1};
}

/// to[x * C + c] = table[c][from[c][x]] for a run of pixels. This loop takes most of the time. C =
/// 0 means any number of channels.
template <int C, int Step, class T>
void interleave_run(const std::uint8_t* from, std::int64_t plane, std::int64_t channels,
                    std::int64_t run, const T* table, T* to) {
  if constexpr (C == 3) {
    const std::uint8_t *r = from, *g = from + plane, *b = from + 2 * plane;
    for (std::int64_t x = 0; x < run; ++x, r += Step, g += Step, b += Step, to += 3) {
      to[0] = table[*r];
      to[1] = table[256 + *g];
      to[2] = table[512 + *b];
    }
  } else {
    for (std::int64_t c = 0; c < channels; ++c) {
      const std::uint8_t* source = from + c * plane;
      for (std::int64_t x = 0; x < run; ++x)
        to[x * channels + c] = table[256 * c + source[Step * x]];
    }
  }
}

template <int Step, class T>
void plane_run(const std::uint8_t* from, std::int64_t run, const T* table, T* to) {
  for (std::int64_t x = 0; x < run; ++x) to[x] = table[from[Step * x]];
}

/// Maps the bytes of images, all of the same shape, to table entries.
template <class T>
struct Painter {
  std::int64_t channels, in_height, in_width, out_height, out_width, padding;
  std::uint8_t fill;
  const T* table;  // 256 entries per channel

  /// For channels_last output.
  void channels_last(const std::uint8_t* in, const Augmentation& drawn, T* out) const {
    const RowPlan plan = plan_row(drawn, padding, in_width, out_width);
    const std::int64_t row = out_width * channels, plane = in_height * in_width;
    for (std::int64_t y = 0; y < out_height; ++y, out += row) {
      const std::int64_t source_row = y + drawn.top - padding;
      if (source_row < 0 || source_row >= in_height) {
        pad_pixels(out, out_width);
        continue;
      }
      pad_pixels(out, plan.before);
      const std::uint8_t* from = in + source_row * in_width + plan.from;
      T* to = out + plan.before * channels;
      if (channels == 3 && plan.step > 0) {
        interleave_run<3, 1>(from, plane, 3, plan.run, table, to);
      } else if (channels == 3) {
        interleave_run<3, -1>(from, plane, 3, plan.run, table, to);
      } else if (plan.step > 0) {
        interleave_run<0, 1>(from, plane, channels, plan.run, table, to);
      } else {
        interleave_run<0, -1>(from, plane, channels, plan.run, table, to);
      }
      const std::int64_t after = plan.before + plan.run;
      pad_pixels(out + after * channels, out_width - after);
    }
    for (const auto& box : {drawn.erased, drawn.cut}) {
      if (box.empty()) continue;
      for (std::int64_t y = box.top; y < box.bottom; ++y) {
        T* pixels = out + (y - out_height) * row;
        std::fill(pixels + box.left * channels, pixels + box.right * channels, T{});
      }
    }
  }

  /// For contiguous output.
  void contiguous(const std::uint8_t* in, const Augmentation& drawn, T* out) const {
    const RowPlan plan = plan_row(drawn, padding, in_width, out_width);
    const std::int64_t after = plan.before + plan.run;
    for (std::int64_t c = 0; c < channels; ++c, in += in_height * in_width) {
      const T* entries = table + 256 * c;
      const T pad = entries[fill];
      T* const plane = out + c * out_height * out_width;
      for (std::int64_t y = 0; y < out_height; ++y) {
        T* to = plane + y * out_width;
        const std::int64_t source_row = y + drawn.top - padding;
        if (source_row < 0 || source_row >= in_height) {
          std::fill(to, to + out_width, pad);
          continue;
        }
        std::fill(to, to + plan.before, pad);
        const std::uint8_t* from = in + source_row * in_width + plan.from;
        if (plan.step > 0) {
          plane_run<1>(from, plan.run, entries, to + plan.before);
        } else {
          plane_run<-1>(from, plan.run, entries, to + plan.before);
        }
        std::fill(to + after, to + out_width, pad);
      }
      for (const auto& box : {drawn.erased, drawn.cut}) {
        for (std::int64_t y = box.top; !box.empty() && y < box.bottom; ++y) {
          std::fill(plane + y * out_width + box.left, plane + y * out_width + box.right, T{});
        }
      }
    }
  }

 private:
  void pad_pixels(T* to, std::int64_t pixels) const {
    for (std::int64_t x = 0; x < pixels; ++x) {
      for (std::int64_t c = 0; c < channels; ++c) *to++ = table[256 * c + fill];
    }
  }
};

void check_probability(double probability, const char* step) {
  require(probability >= 0 && probability <= 1, step, ": probability ", probability,
          " is not in [0, 1]");
}

void check_step(const RandomCrop& crop) {
  require(crop.height > 0 && crop.width > 0 && crop.padding >= 0, "RandomCrop: a window of ",
          crop.height, " x ", crop.width, " with padding ", crop.padding,
          "; the sides must be positive, and the padding not negative");
}
void check_step(const RandomHorizontalFlip& flip) {
  check_probability(flip.probability, "RandomHorizontalFlip");
}
void check_step(const ToFloat&) {}
void check_step(const Normalize& normalize) {
  require(normalize.mean.size() == normalize.std.size() && !normalize.mean.empty(),
          "Normalize: ", normalize.mean.size(), " means and ", normalize.std.size(),
          " standard deviations; expected one of each for every channel");
  for (std::size_t c = 0; c < normalize.std.size(); ++c) {
    require(
        std::isfinite(normalize.mean[c]) && std::isfinite(normalize.std[c]) && normalize.std[c] > 0,
        "Normalize: mean ", normalize.mean[c], " and standard deviation ", normalize.std[c],
        " of channel ", c, "; both must be finite, and the standard deviation positive");
  }
}
void check_step(const RandomErasing& erasing) {
  check_probability(erasing.probability, "RandomErasing");
  require(erasing.scale[0] >= 0 && erasing.scale[0] <= erasing.scale[1] && erasing.scale[1] <= 1,
          "RandomErasing: scale from ", erasing.scale[0], " to ", erasing.scale[1],
          " is not a range in [0, 1]");
  require(erasing.ratio[0] > 0 && erasing.ratio[0] <= erasing.ratio[1],
          "RandomErasing: ratio from ", erasing.ratio[0], " to ", erasing.ratio[1],
          " is not a range above 0");
}
void check_step(const Cutout& cutout) {
  require(cutout.side > 0, "Cutout: a side of ", cutout.side, ", but it must be positive");
}

/// The step of this type, or null.
template <class Step>
const Step* find(const std::vector<ImageStep>& steps) {
  for (const ImageStep& step : steps)
    if (const auto* found = std::get_if<Step>(&step)) return found;
  return nullptr;
}

}  // namespace

ImageTransform::ImageTransform() : ImageTransform({ToFloat{}}) {}

ImageTransform::ImageTransform(std::vector<ImageStep> steps, ImageTransformOptions options)
    : options_(options), steps_(std::move(steps)) {
  static constexpr std::array names{"RandomCrop", "RandomHorizontalFlip", "ToFloat",
                                    "Normalize",  "RandomErasing",        "Cutout"};
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    require(i == 0 || steps_[i - 1].index() < steps_[i].index(),
            "ImageTransform: ", names[steps_[i].index()], " after ",
            names[steps_[i > 0 ? i - 1 : 0].index()],
            "; the order is RandomCrop, RandomHorizontalFlip, ToFloat, Normalize, RandomErasing, "
            "Cutout, each at most once");
    std::visit([](const auto& step) { check_step(step); }, steps_[i]);
  }
  require(find<Normalize>(steps_) == nullptr || find<ToFloat>(steps_) != nullptr,
          "ImageTransform: Normalize needs ToFloat before it");
}

Augmentation ImageTransform::draw(std::uint64_t epoch, std::int64_t index, std::int64_t height,
                                  std::int64_t width) const {
  const auto* crop = find<RandomCrop>(steps_);
  const auto* flip = find<RandomHorizontalFlip>(steps_);
  const auto* erasing = find<RandomErasing>(steps_);
  const auto* cutout = find<Cutout>(steps_);
  const Philox random{options_.seed, augmentation_streams + epoch};
  const std::uint64_t first = static_cast<std::uint64_t>(index) * blocks_per_sample;
  Augmentation drawn;
  if (crop == nullptr && flip == nullptr && erasing == nullptr && cutout == nullptr) return drawn;
  const auto words = random.block(first);
  if (crop != nullptr) {
    drawn.top = below(words[0], height + 2 * crop->padding - crop->height + 1);
    drawn.left = below(words[1], width + 2 * crop->padding - crop->width + 1);
    height = crop->height;
    width = crop->width;
  }
  drawn.flip = flip != nullptr && uniform_float(words[2]) < flip->probability;
  if (erasing != nullptr && uniform_float(words[3]) < erasing->probability) {
    drawn.erased = draw_erased(*erasing, random, first, height, width);
  }
  if (cutout != nullptr) drawn.cut = draw_cut(*cutout, random, first, height, width);
  return drawn;
}

/// The output for each byte of each channel: the float operations of ToTensor and Normalize, in
/// their order and precision; without ToFloat, the byte itself.
std::vector<float> ImageTransform::float_table(std::int64_t channels) const {
  const auto* to_float = find<ToFloat>(steps_);
  const auto* normalize = find<Normalize>(steps_);
  std::vector<float> table(static_cast<std::size_t>(256 * channels));
  for (std::size_t i = 0; i < table.size(); ++i) {
    float value = static_cast<float>(i % 256) / (to_float != nullptr ? 255.0F : 1.0F);
    if (normalize != nullptr) value = (value - normalize->mean[i / 256]) / normalize->std[i / 256];
    table[i] = value;
  }
  return table;
}

void ImageTransform::check(const Tensor& images, std::span<const std::int64_t> indices) const {
  const auto* crop = find<RandomCrop>(steps_);
  const auto* normalize = find<Normalize>(steps_);
  require<DTypeError>(images.dtype() == u8, "ImageTransform: images of ", images.dtype(),
                      ", but it reads bytes (u8)");
  require<ShapeError>(images.dim() == 4 && images.is_contiguous(), "ImageTransform: images ",
                      images.shape(), " are not contiguous (N, C, H, W)");
  require<ShapeError>(static_cast<std::int64_t>(indices.size()) == images.size(0),
                      "ImageTransform: ", indices.size(), " indices for ", images.size(0),
                      " images");
  const std::int64_t channels = images.size(1);
  require<ShapeError>(
      normalize == nullptr || static_cast<std::int64_t>(normalize->mean.size()) == channels,
      "ImageTransform: Normalize has ", normalize != nullptr ? normalize->mean.size() : 0,
      " channels, images ", images.shape(), " have ", channels);
  if (crop != nullptr) {
    const std::int64_t height = images.size(2) + 2 * crop->padding;
    const std::int64_t width = images.size(3) + 2 * crop->padding;
    require<ShapeError>(crop->height <= height && crop->width <= width,
                        "RandomCrop: ", crop->height, " x ", crop->width, " out of ", height, " x ",
                        width, ", the size with padding");
  }
}

template <class T>
void ImageTransform::run(const Tensor& images, std::span<const std::int64_t> indices,
                         const Draw& draws, const Tensor& out) const {
  const std::int64_t channels = images.size(1), height = images.size(2), width = images.size(3);
  const auto* crop = find<RandomCrop>(steps_);
  const std::vector<float> floats = float_table(channels);
  const std::vector<T> table(floats.begin(), floats.end());
  const Painter<T> painter{.channels = channels,
                           .in_height = height,
                           .in_width = width,
                           .out_height = out.size(2),
                           .out_width = out.size(3),
                           .padding = crop != nullptr ? crop->padding : 0,
                           .fill = crop != nullptr ? crop->fill : std::uint8_t{0},
                           .table = table.data()};
  const auto* in = images.data_ptr<std::uint8_t>();
  T* to = out.data_ptr<T>();
  for (std::size_t k = 0; k < indices.size(); ++k) {
    const Augmentation drawn = draw(draws.stream(k), indices[k], height, width);
    if (options_.format == MemoryFormat::channels_last) {
      painter.channels_last(in, drawn, to);
    } else {
      painter.contiguous(in, drawn, to);
    }
    in += channels * height * width;
    to += channels * painter.out_height * painter.out_width;
  }
}

Tensor ImageTransform::apply(const Tensor& images, std::span<const std::int64_t> indices,
                             const Draw& draws) const {
  check(images, indices);
  const auto* crop = find<RandomCrop>(steps_);
  const auto* to_float = find<ToFloat>(steps_);
  Dims sizes = images.shape();
  if (crop != nullptr) {
    sizes[2] = crop->height;
    sizes[3] = crop->width;
  }
  Tensor out = Tensor::empty(sizes, {.dtype = to_float != nullptr ? f32 : u8,
                                     .device = images.device(),
                                     .format = options_.format});
#ifdef RONDO_HAS_CUDA
  if (images.device().is_cuda()) {
    std::vector<Augmentation> drawn;
    for (std::size_t k = 0; k < indices.size(); ++k)
      drawn.push_back(draw(draws.stream(k), indices[k], images.size(2), images.size(3)));
    augment_on_gpu(images, drawn,
                   {.padding = crop != nullptr ? crop->padding : 0,
                    .fill = crop != nullptr ? crop->fill : std::uint8_t{0},
                    .table = float_table(images.size(1))},
                   out);
    return out;
  }
#endif
  if (to_float != nullptr) {
    run<float>(images, indices, draws, out);
  } else {
    run<std::uint8_t>(images, indices, draws, out);
  }
  return out;
}

Batch ImageTransform::operator()(Batch batch, const BatchContext& context) const {
  return {apply(batch.input, context.indices, context.draw), std::move(batch.target)};
}

}  // namespace rondo::data
