#pragma once
// Report: a run on one page, report.html: the configuration, the training curves, the confusion
// matrix, the test images with the highest loss, and where the time of a step goes.
//
// The page is a single self-contained file: charts are inline SVG (extras/report/svg_chart.h),
// images are data URIs, and no scripts are used. It follows the reader's light or dark mode, and
// can be printed. The program fills in the data that it has; a section without data says so.
//
//   train::Report report{.title = "resnet20 on cifar10"};
//   report.epochs = train::read_metrics("runs/a/metrics.jsonl");
//   train::write_report("report.html", report);
//
// examples/programs/classifier/report.cpp fills in all fields.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "train/fit.h"
#include "train/judgement.h"
#include "train/metrics.h"
#include "train/overlap.h"
#include "train/profiler.h"

namespace rondo::train {

struct Report {
  std::string title;
  /// Names and values, in order. The first one is the result, shown at the top.
  std::vector<std::pair<std::string, std::string>> results, configuration, environment;

  std::vector<Metrics> epochs;  // as fit writes them (train/metrics.h)
  FitResult::Steps steps;       // consistent with `epochs`; may cover only the last part of a run

  std::vector<std::string> class_names;
  Judgement judgement;                // empty confusion: no judgement
  std::vector<std::string> pictures;  // PNG files, one for each of judgement.worst, or none

  std::shared_ptr<const Profiler> profile;  // null if nothing was profiled
  int world_size = 1;
  Overlap overlap;
};

/// The page.
std::string html(const Report& report);

/// Writes the page, whole or not at all. Throws IoError.
void write_report(const std::string& path, const Report& report);

}  // namespace rondo::train
