#pragma once
// ReduceLROnPlateau: lowers the rate when a metric, such as the test loss, no longer improves.
//
//   optim::ReduceLROnPlateau schedule(sgd, {.patience = 3});
//   ... once an epoch: schedule.step(test_loss);

#include "optim/lr_schedule.h"
#include "optim/per_group.h"

namespace rondo::optim {

enum class PlateauMode : std::uint8_t { min, max };
enum class ThresholdMode : std::uint8_t { rel, abs };

struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;  // min: lower metrics are better
  double factor = 0.1;
  std::int64_t patience = 10;  // steps without an improvement that are allowed
  double threshold = 1e-4;     // smaller improvements do not count
  ThresholdMode threshold_mode = ThresholdMode::rel;
  std::int64_t cooldown = 0;  // steps after a reduction during which none is counted
  PerGroup min_lr = 0;
  double eps = 1e-8;  // a smaller change of the rate is not made
};

/// lr ← max(lr · factor, min_lr) after more than `patience` steps in a row without an improvement.
/// With mode min, a metric improves if it is below best · (1 − threshold) (rel) or best − threshold
/// (abs); with mode max, if it is above best · (1 + threshold) or best + threshold.
class ReduceLROnPlateau final : public LRSchedule {
 public:
  /// Throws Error for a factor of 1 or more, a negative patience or cooldown, and a list of another
  /// length than the optimizer's groups.
  explicit ReduceLROnPlateau(Optimizer& optimizer, ReduceLROnPlateauOptions options = {});
  const char* type() const override { return "ReduceLROnPlateau"; }
  /// Throws Error: this schedule needs the metric. It cannot be a part of another schedule.
  void step() override;
  void step(double metric);

 private:
  double next_lr(std::size_t group, double lr) override;
  std::map<std::string, std::vector<double>> settings() const override;
  void load_settings(const std::map<std::string, std::vector<double>>& values) override;
  bool is_better(double metric) const;

  ReduceLROnPlateauOptions o_;
  double best_;
  std::int64_t bad_steps_ = 0, cooldown_left_ = 0;
};

}  // namespace rondo::optim
