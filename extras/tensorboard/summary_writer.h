#pragma once
// SummaryWriter: what a run measures, as TensorBoard reads it (PyTorch's class of that name in
// torch.utils.tensorboard).
//
//   io::SummaryWriter writer("runs/resnet20");
//   writer.add_scalar("loss/train", loss, step);
//   writer.add_histogram("weights/fc", model->fc->weight(), step);
//
//   tensorboard --logdir runs
//
// A folder holds event files, one for each writer that has been there; TensorBoard reads them all,
// and follows those that grow. An event file is a sequence of records, each its length, a checksum
// of the length, a protocol buffer (extras/tensorboard/protobuf/tensorboard.proto) and a checksum
// of that: a file cut short by the end of a machine is good up to its last whole record.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "nn/module.h"
#include "tensor/own_file.h"
#include "tensor/tensor.h"

namespace rondo::io {

struct SummaryWriterOptions {
  /// A run that goes on from a checkpoint: what an earlier writer to this folder said of this step
  /// and later ones is forgotten.
  std::optional<std::int64_t> purge_step = {};
};

class SummaryWriter {
 public:
  /// Makes the folder, and in it a new file events.out.tfevents.TIME.HOST.PID.N. Throws IoError
  /// when it cannot, and Error when rondo was built without protobuf.
  explicit SummaryWriter(const std::filesystem::path& folder,
                         const SummaryWriterOptions& options = {});
  ~SummaryWriter();
  SummaryWriter(const SummaryWriter&) = delete;
  SummaryWriter& operator=(const SummaryWriter&) = delete;

  // All throw IoError naming the file when it cannot be written (disk full), and Error for an empty
  // tag.

  /// Throws what the constructor would, where that can be told without writing anything.
  static void check(const std::filesystem::path& folder);

  /// One point of a curve. NaN and infinities are kept; TensorBoard marks them.
  void add_scalar(const std::string& tag, double value, std::int64_t step);

  /// The distribution of x's elements, of any shape, real dtype and device, over TensorFlow's
  /// buckets: 0, and ± 1e-12 · 1.1^k. Elements that are not finite are left out. Throws Error when
  /// none is left.
  void add_histogram(const std::string& tag, const Tensor& x, std::int64_t step);

  /// A picture, as PNG: (H, W), (1, H, W) or (3, H, W), grey or RGB, of any strides and device; u8,
  /// or floating in [0, 1], of which 255 x is cut off to u8 as PyTorch does, what lies outside
  /// being taken to the nearest end. Throws ShapeError, DTypeError, and Error for NaN.
  void add_image(const std::string& tag, const Tensor& image, std::int64_t step);

  /// Pictures (N, C, H, W), C 1 or 3, as one, eight in a row without gaps, the rest black.
  void add_images(const std::string& tag, const Tensor& images, std::int64_t step);

  /// Markdown.
  void add_text(const std::string& tag, const std::string& text, std::int64_t step);

  /// The ops that forward(input) comes to, each within its module's scope, with the sizes of what
  /// they put out; the model is in eval mode meanwhile and as it was afterwards. Gradients are what
  /// tells ops apart: those that none flows through are not there. A later graph replaces an
  /// earlier one.
  void add_graph(nn::Module& model, const Tensor& input);

  /// Does nothing: every record goes to the operating system at once.
  void flush();
  const std::filesystem::path& path() const { return path_; }

 private:
  /// Appends a record. `event`: a serialized Event.
  void write(const std::string& event);

  std::filesystem::path path_;
  std::optional<OwnFile> file_;
};

/// CRC-32C (Castagnoli's polynomial, reflected: 0x82f63b78) of `bytes`, with which event files are
/// checked.
std::uint32_t crc32c(const void* data, std::size_t bytes);

}  // namespace rondo::io
