#pragma once
// CurveWriter: the metrics of a run as curves, and its parameters as histograms, in a format of an
// extra (extras/tensorboard/curves.h registers TensorBoard's; rondo/rondo.h includes it). Used by
// rank 0 alone.

#include <cstdint>
#include <filesystem>
#include <memory>

#include "nn/module.h"
#include "train/metrics.h"

namespace rondo::train {

class CurveWriter {
 public:
  virtual ~CurveWriter() = default;
  /// The values and the parameters at metrics.at("step"). Throws IoError.
  virtual void log(const Metrics& metrics, nn::Module& model) = 0;
  /// The model's graph.
  virtual void log_graph(nn::Module& model, const Tensor& input) = 0;
};

struct CurveFormat {
  /// Throws what `open` would, where that can be told without writing anything.
  void (*check)(const std::filesystem::path& folder);
  /// What an earlier run wrote of `first_step` and later steps no longer counts.
  std::unique_ptr<CurveWriter> (*open)(const std::filesystem::path& folder,
                                       std::int64_t first_step);
};
/// Returns true, so that it can initialise an inline variable of the header.
bool register_curve_format(CurveFormat format);
/// Throws Error where none is registered.
const CurveFormat& curve_format();

}  // namespace rondo::train
