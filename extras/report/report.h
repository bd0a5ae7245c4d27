#pragma once
// Report: a run on one page, report.html: what was trained on what, how it went, what the model
// confuses, the test images that it judges worst, and where the time of a step goes.
//
// The page is one file that needs nothing else: charts are inline SVG (extras/report/svg_chart.h),
// pictures are data URIs, there is no script. It follows the reader's light or dark mode, and can
// be printed. Data in, HTML out: who trains, fills in what there is; a section without data says
// so.
//
//   train::Report report{.title = "resnet20 on cifar10"};
//   report.epochs = train::read_metrics("runs/a/metrics.jsonl");
//   train::write_report("report.html", report);
//
// examples/classifier/report.cpp fills in all of it.

#include <filesystem>
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
  /// Names and values, in order; the first is what came out and stands on top.
  std::vector<std::pair<std::string, std::string>> results, configuration, environment;

  std::vector<Metrics> epochs;  // as fit writes them (train/metrics.h)
  FitResult::Steps steps;       // within them; may be of the last part of a run alone

  std::vector<std::string> class_names;
  Judgement judgement;                // confusion empty: there is none
  std::vector<std::string> pictures;  // PNG files, one for each of judgement.worst, or none

  std::shared_ptr<const Profiler> profile;  // null: none
  int world_size = 1;
  Overlap overlap;
};

/// The page.
std::string html(const Report& report);

/// Writes it, whole or not at all. Throws IoError.
void write_report(const std::filesystem::path& path, const Report& report);

}  // namespace rondo::train
