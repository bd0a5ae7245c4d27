#pragma once
// SummaryWriter: writes the metrics of a run for TensorBoard (like PyTorch's class in
// torch.utils.tensorboard).
//
//   io::SummaryWriter writer("runs/resnet20");
//   writer.add_scalar("loss/train", loss, step);
//   writer.add_histogram("weights/fc", model->fc->weight(), step);
//
//   tensorboard --logdir runs
//
// A folder contains event files, one for each writer that has used it; TensorBoard reads all of
// them, and follows files that grow. An event file is a sequence of records. A record has its
// length, a checksum of the length, a protocol buffer
// (extras/tensorboard/protobuf/tensorboard.proto) and a checksum of that. A file that was truncated
// by a crash is valid up to its last complete record.

#include <cstdint>
#include <optional>
#include <string>

#include "nn/module.h"
#include "tensor/own_file.h"
#include "tensor/tensor.h"

namespace rondo::io {

struct SummaryWriterOptions {
  /// For a run that resumes from a checkpoint: TensorBoard ignores what an earlier writer in this
  /// folder wrote for this step and later ones.
  std::optional<std::int64_t> purge_step = {};
};

class SummaryWriter {
 public:
  /// Creates the folder, and in it a new file events.out.tfevents.TIME.HOST.PID.N. Throws IoError
  /// if it cannot, and Error if rondo was built without protobuf.
  explicit SummaryWriter(const std::string& folder, const SummaryWriterOptions& options = {});
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // All functions throw IoError naming the file if it cannot be written (such as a full disk), and
  // Error for an empty tag.

  /// Throws the errors of the constructor that can be detected without writing.
  static void check(const std::string& folder);

  /// Adds a point to a curve. NaN and infinities are kept; TensorBoard marks them.
  void add_scalar(const std::string& tag, double value, std::int64_t step);

  /// The distribution of the elements of x (any shape, real dtype and device) over TensorFlow's
  /// buckets: 0, and ± 1e-12 · 1.1^k. Elements that are not finite are left out. Throws Error if
  /// none is left.
  void add_histogram(const std::string& tag, const Tensor& x, std::int64_t step);

  /// An image, stored as PNG: (H, W), (1, H, W) or (3, H, W), grey or RGB, with any strides and
  /// device. u8, or floating in [0, 1]: 255 x is truncated to u8 as in PyTorch, and values outside
  /// the range are clamped. Throws ShapeError, DTypeError, and Error for NaN.
  void add_image(const std::string& tag, const Tensor& image, std::int64_t step);

  /// Combines images (N, C, H, W), C 1 or 3, into one, eight per row without gaps; the rest is
  /// black.
  void add_images(const std::string& tag, const Tensor& images, std::int64_t step);

  /// Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);

  /// The ops of forward(input), each in the scope of its module, with the sizes of its outputs. The
  /// model is in eval mode during the call; its mode is restored. The graph comes from the tape, so
  /// ops that no gradient flows through are missing. A later graph replaces an earlier one.
  void add_graph(nn::Module& model, const Tensor& input);

  /// Does nothing: every record is passed to the operating system at once.
  void flush();
  const std::string& path() const { return path_; }

 private:
  /// Appends a record. `event`: a serialized Event.
  void write(const std::string& event);

  std::string path_;
  std::optional<OwnFile> file_;
};

/// CRC-32C (Castagnoli's polynomial, reflected: 0x82f63b78) of `bytes`; the checksum of event
/// files.
std::uint32_t crc32c(const void* data, std::size_t bytes);

}  // namespace rondo::io
