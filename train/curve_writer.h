#pragma once
// CurveWriter: writes the metrics of a run as curves and its parameters as histograms, in a format
// that an extra registers (extras/tensorboard/curves.h registers TensorBoard's; rondo/rondo.h
// includes it). Only rank 0 uses it.

#include <cstdint>
#include <memory>
#include <string>

#include "nn/module.h"
#include "train/metrics.h"

namespace rondo::train {

class CurveWriter {
 public:
  virtual ~CurveWriter() = default;
  /// Writes the metrics and the parameters at the step metrics.at("step"). Throws IoError.
  virtual void log(const Metrics& metrics, nn::Module& model) = 0;
  /// Writes the model's graph.
  virtual void log_graph(nn::Module& model, const Tensor& input) = 0;
};

struct CurveFormat {
  /// Throws the errors of `open` that can be detected without writing.
  void (*check)(const std::string& folder);
  /// Ignores what an earlier run wrote for `first_step` and later steps.
  std::unique_ptr<CurveWriter> (*open)(const std::string& folder, std::int64_t first_step);
};
/// Returns true, so that it can initialise an inline variable in the header. The last registration
/// counts. Call it before main or on one thread.
bool register_curve_format(CurveFormat format);
/// Throws Error if no format is registered.
const CurveFormat& curve_format();

}  // namespace rondo::train
