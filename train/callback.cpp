#include "train/callback.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "tensor/error.h"
#include "train/progress_bar.h"

namespace rondo::train {

Metrics metrics_of(const EpochReport& report, std::int64_t steps) {
  Metrics metrics = {{"epoch", static_cast<double>(report.epoch)},
                     {"step", static_cast<double>(steps)},
                     {"train_loss", report.train_loss},
                     {"lr", report.lr},
                     {"img_per_s", report.img_per_s},
                     {"seconds", report.seconds}};
  metrics.insert(report.train.begin(), report.train.end());
  if (report.test.samples > 0) metrics["test_loss"] = report.test.loss;
  if (report.test.total > 0) metrics["test_accuracy"] = report.test.accuracy();
  for (const auto& [name, value] : report.test.metrics) metrics[concat("test_", name)] = value;
  return metrics;
}

std::string line_of(const EpochReport& report, std::int64_t epochs) {
  const Evaluation& test = report.test;
  std::string results;
  for (const auto& [name, value] : report.train) {
    results += name == "train_accuracy" ? fmt::format(", train accuracy {:.2f} %", 100 * value)
                                        : fmt::format(", {} {:.4f}", name, value);
  }
  if (test.total > 0) {
    results += fmt::format(", test accuracy {:.2f} % ({} of {})", 100 * test.accuracy(),
                           test.correct, test.total);
  } else if (test.samples > 0) {
    results += fmt::format(", test loss {:.4f}", test.loss);
  }
  for (const auto& [name, value] : test.metrics)
    results += fmt::format(", test {} {:.4f}", name, value);
  return fmt::format("epoch {}/{}: loss {:.4f}{}, {} img/s, {}", report.epoch, epochs,
                     report.train_loss, results, format_rate(report.img_per_s),
                     format_duration(report.seconds));
}

EarlyStopping::EarlyStopping(EarlyStoppingOptions options)
    : options_(std::move(options)),
      best_(options_.mode == EarlyStoppingOptions::Mode::min
                ? std::numeric_limits<double>::infinity()
                : -std::numeric_limits<double>::infinity()) {
  require(options_.patience >= 1, "EarlyStopping: patience is ", options_.patience,
          ", but must be at least 1");
  require(std::isfinite(options_.min_delta) && options_.min_delta >= 0,
          "EarlyStopping: min_delta is ", options_.min_delta,
          ", but must be finite and not negative");
}

bool EarlyStopping::on_epoch_end(const EpochReport& report) {
  const auto found = report.metrics.find(options_.monitor);
  if (found == report.metrics.end()) {
    std::string names;
    for (const auto& [name, value] : report.metrics) names += (names.empty() ? "" : ", ") + name;
    throw Error(
        concat("EarlyStopping: unknown metric ", options_.monitor, "; the metrics are ", names));
  }
  const double value = found->second;
  const bool is_better = options_.mode == EarlyStoppingOptions::Mode::min
                             ? value < best_ - options_.min_delta
                             : value > best_ + options_.min_delta;
  if (is_better) best_ = value;
  wait_count_ = is_better ? 0 : wait_count_ + 1;
  return wait_count_ < options_.patience;
}

// The name includes the monitored metric, because a run may have several EarlyStopping callbacks.
std::string EarlyStopping::key(const char* name) const {
  const char* mode = options_.mode == EarlyStoppingOptions::Mode::min ? "min" : "max";
  return concat("early_stopping.", options_.monitor, ".", mode, ".", name);
}

io::Metadata EarlyStopping::state_dict() const {
  return {{key("best"), best_}, {key("wait_count"), wait_count_}};
}

void EarlyStopping::load_state_dict(const io::Metadata& state) {
  if (const auto best = state.find(key("best")); best != state.end())
    best_ = std::get<double>(best->second);
  if (const auto count = state.find(key("wait_count")); count != state.end())
    wait_count_ = std::get<std::int64_t>(count->second);
}

}  // namespace rondo::train
