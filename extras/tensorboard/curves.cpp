#include "extras/tensorboard/curves.h"

#include "autograd/ops/reduce.h"
#include "autograd/ops/unary.h"
#include "extras/tensorboard/summary_writer.h"

namespace rondo::train::detail {
namespace {

class TensorBoardCurves final : public CurveWriter {
 public:
  TensorBoardCurves(const std::string& folder, std::int64_t first_step)
      : writer_(folder, {.purge_step = first_step}) {}

  void log(const Metrics& metrics, nn::Module& model) override {
    const auto step = static_cast<std::int64_t>(metrics.at("step"));
    for (const auto& [name, value] : metrics)
      if (name != "step") writer_.add_scalar(name, value, step);
    for (const auto& [name, p] : model.named_parameters())
      if (isfinite(p.detach()).sum().item<std::int64_t>() > 0)  // else the loss is already an error
        writer_.add_histogram(name, p, step);
  }
  void log_graph(nn::Module& model, const Tensor& input) override {
    writer_.add_graph(model, input);
  }

 private:
  io::SummaryWriter writer_;
};

}  // namespace

bool register_tensorboard() {
  return register_curve_format({.check = io::SummaryWriter::check,
                                .open = [](const std::string& folder, std::int64_t first_step)
                                    -> std::unique_ptr<CurveWriter> {
                                  return std::make_unique<TensorBoardCurves>(folder, first_step);
                                }});
}

}  // namespace rondo::train::detail
