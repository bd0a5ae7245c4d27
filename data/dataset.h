#pragma once
// Dataset: returns samples by index, a whole batch at a time.
//
// PyTorch reads one sample at a time and collates afterwards. Here the unit is the list of indices
// of a batch: a data set in memory then needs one gather of bytes, and a virtual call costs once
// per batch instead of once per image. Images stay bytes (3 KiB for a CIFAR image) until
// data/transforms.h converts a batch of them to floats in the same pass that also crops and flips.
//
// A data set of your own that returns one sample at a time derives from SampleDataset
// (data/samples.h).
//
// Read next: data/sampler.h (which indices), data/transforms.h (what happens to the bytes),
// data/loader.h (which thread does it, and when).

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tensor/tensor.h"

namespace rondo::data {

/// One sample, without the dimension N. A class index as the target is an i64 tensor of shape [].
struct Sample {
  Tensor input, target;
};

/// Samples and their targets. `for (auto& [input, target] : loader)`.
struct Batch {
  Tensor input;   // (N, …)
  Tensor target;  // (N) class indices in i64, or (N, …) for other targets

  /// N.
  std::int64_t size() const { return input.size(0); }
};

/// Which part of a data set: the training set, or the set on which accuracies are reported.
enum class Split : std::uint8_t { train, test };

/// "train" or "test".
const char* name_of(Split split);

/// Which random variant of a sample to return. Data sets and transforms that draw at random draw a
/// function of (seed, stream(row), index of the sample).
struct Draw {
  std::uint64_t epoch = 0;
  /// How many times the sample of each row has already appeared in this epoch; empty: zero times.
  std::span<const std::int64_t> repeats = {};

  /// The offset from the base of a Philox stream (Note [Random streams]): the epoch in the lower 32
  /// bits, the repeat above them.
  std::uint64_t stream(std::size_t row) const {
    return epoch + (repeats.empty() ? 0 : static_cast<std::uint64_t>(repeats[row]) << 32);
  }
};

class Dataset {
 public:
  virtual ~Dataset() = default;

  /// The number of samples.
  virtual std::int64_t size() const = 0;
  /// The samples with these indices, in this order; repetitions are allowed. Called from several
  /// threads at once. Throws ShapeError naming an index outside [0, size()).
  virtual Batch get_batch(std::span<const std::int64_t> indices) const = 0;

  /// The same samples as they are in this epoch. The loader calls this function. Data sets that
  /// draw at random (data/image_folder.h) draw again in each epoch; other data sets ignore the
  /// epoch.
  virtual Batch get_epoch_batch(const Draw& /*draw*/, std::span<const std::int64_t> indices) const {
    return get_batch(indices);
  }

  /// The samples of get_epoch_batch one by one, for a collate function (data/samples.h). By
  /// default they are views of the batch's rows.
  virtual std::vector<Sample> get_samples(const Draw& draw,
                                          std::span<const std::int64_t> indices) const;

  /// 0 if the targets are not classes.
  virtual std::int64_t num_classes() const {
    return static_cast<std::int64_t>(class_names().size());
  }
  /// One name for each class, or no names if the targets are not classes.
  virtual const std::vector<std::string>& class_names() const;
};

/// Rows of two tensors in memory (torch.utils.data.TensorDataset): sample i is (inputs[i],
/// targets[i]).
class TensorDataset : public Dataset {
 public:
  /// Both contiguous, on the CPU, with the same number of rows; any dtypes. Throws ShapeError,
  /// DeviceError.
  TensorDataset(Tensor inputs, Tensor targets);

  std::int64_t size() const override { return inputs_.size(0); }
  Batch get_batch(std::span<const std::int64_t> indices) const override;

  const Tensor& inputs() const { return inputs_; }
  const Tensor& targets() const { return targets_; }

 private:
  Tensor inputs_, targets_;
};

/// Images as bytes, u8 (N, C, H, W), and their classes, i64 (N). The readers of CIFAR and MNIST
/// return this.
class ImageDataset : public TensorDataset {
 public:
  /// Throws DTypeError or ShapeError for other tensors, and Error naming the first sample whose
  /// label is not below class_names.size().
  ImageDataset(Tensor images, Tensor labels, std::vector<std::string> class_names);

  const std::vector<std::string>& class_names() const override { return class_names_; }
  const Tensor& images() const { return inputs(); }
  const Tensor& labels() const { return targets(); }
  std::int64_t channels() const { return images().size(1); }
  std::int64_t height() const { return images().size(2); }
  std::int64_t width() const { return images().size(3); }

 private:
  std::vector<std::string> class_names_;
};

}  // namespace rondo::data
