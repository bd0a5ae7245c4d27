#include "extras/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "extras/report/report_style.h"
#include "extras/report/svg_chart.h"
#include "io/atomic_file.h"

namespace rondo::train {
namespace {

constexpr std::size_t most_classes_in_table = 20, most_pairs = 30;

std::string base64(std::string_view bytes) {
  constexpr std::string_view digits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      text += i + k <= bytes.size() ? digits[three >> (18 - 6 * k) & 63] : '=';
  }
  return text;
}

std::string percent(double share, int digits = 1) {
  return std::isfinite(share) ? fmt::format("{:.{}f}&nbsp;%", 100 * share, digits) : "not a number";
}

std::string section(const char* id, const char* title, const std::string& about,
                    const std::string& content) {
  return fmt::format("<section id=\"{}\">\n<h2>{}</h2>\n<p>{}</p>\n{}</section>\n", id, title,
                     about, content);
}

std::string card(const std::string& content) {
  return "<div class=\"card\">\n" + content + "</div>\n";
}

std::string class_name(const Report& report, std::int64_t index) {
  const auto i = static_cast<std::size_t>(index);
  return i < report.class_names.size() ? report.class_names[i] : concat("class ", index);
}

// ---- The run ----

std::string key_figures(const Report& report) {
  std::string text = "<dl class=\"key\" id=\"results\">\n";
  for (const auto& [name, value] : report.results)
    text += fmt::format("<div><dt>{}</dt><dd>{}</dd></div>\n", escaped(name), escaped(value));
  return text + "</dl>\n";
}

std::string pairs(const char* title, const std::vector<std::pair<std::string, std::string>>& all) {
  std::string text = fmt::format("<h3>{}</h3>\n<table><tbody>\n", title);
  for (const auto& [name, value] : all)
    text += fmt::format("<tr><th class=\"text\">{}</th><td class=\"text\">{}</td></tr>\n",
                        escaped(name), escaped(value));
  return text + "</tbody></table>\n";
}

std::string about_the_run(const Report& report) {
  return section("run", "The run", "The settings, and the machine that it ran on.",
                 "<div class=\"columns\">\n" + card(pairs("Configuration", report.configuration)) +
                     card(pairs("Environment", report.environment)) + "</div>\n");
}

// ---- Curves ----

Series by_epoch(const Report& report, const char* column, std::string name, double factor = 1) {
  Series series{.name = std::move(name), .points = {}};
  for (const Metrics& row : report.epochs)
    if (const auto found = row.find(column); found != row.end() && row.at("epoch") > 0)
      series.points.emplace_back(row.at("epoch"), factor * found->second);
  return series;
}

Series by_step(const Report& report, const std::vector<double>& values, std::string name) {
  Series series{.name = std::move(name), .points = {}};
  for (std::size_t i = 0; i < values.size(); ++i)
    series.points.emplace_back(static_cast<double>(report.steps.first) + static_cast<double>(i),
                               values[i]);
  return series;
}

std::string curves(const Report& report) {
  const auto chart = [](LineChart c) {
    c.whole_x = true;  // epochs and steps
    return card(line_chart(c));
  };
  std::string charts = chart({.title = "Loss by epoch",
                              .x_label = "epoch",
                              .y_label = "mean cross-entropy (nats)",
                              .series = {by_epoch(report, "train_loss", "training"),
                                         by_epoch(report, "test_loss", "test")}});
  charts += chart({.title = "Test accuracy",
                   .x_label = "epoch",
                   .y_label = "correct (%)",
                   .series = {by_epoch(report, "test_accuracy", "test accuracy", 100)}});
  charts += chart({.title = "Loss by step",
                   .x_label = "step",
                   .y_label = "training loss (nats)",
                   .series = {by_step(report, report.steps.loss, "loss")}});
  charts += chart({.title = "Learning rate",
                   .x_label = "step",
                   .y_label = "learning rate",
                   .series = {by_step(report, report.steps.lr, "learning rate")},
                   .from_zero = true});
  charts += chart({.title = "Speed",
                   .x_label = "epoch",
                   .y_label = "training images/s",
                   .series = {by_epoch(report, "img_per_s", "images/s")},
                   .from_zero = true});
  std::string about = "Values of all ranks together; an epoch is counted when it is complete.";
  if (report.steps.first > 1)
    about +=
        concat(" The run was resumed: steps are shown from number ", report.steps.first, " on.");
  if (report.steps.loss.size() > 400)
    about += " With many steps, a point of a curve is the mean of several.";
  return section("curves", "Curves", about, "<div class=\"columns\">\n" + charts + "</div>\n");
}

// ---- Confusion ----

struct ConfusedPair {
  std::int64_t target, predicted, count;
};

std::vector<ConfusedPair> confused_pairs(const Report& report) {
  std::vector<ConfusedPair> all;
  const auto& confusion = report.judgement.confusion;
  for (std::size_t t = 0; t < confusion.size(); ++t)
    for (std::size_t p = 0; p < confusion.size(); ++p)
      if (t != p && confusion[t][p] > 0)
        all.push_back(
            {static_cast<std::int64_t>(t), static_cast<std::int64_t>(p), confusion[t][p]});
  std::ranges::stable_sort(all, std::greater<>(), &ConfusedPair::count);
  return all;
}

std::string matrix(const Report& report) {
  const auto& confusion = report.judgement.confusion;
  std::string text =
      "<table class=\"confusion\"><thead><tr><th class=\"text\">class \\ predicted</th>";
  for (std::size_t p = 0; p < confusion.size(); ++p)
    text += fmt::format("<th>{}</th>", escaped(class_name(report, static_cast<std::int64_t>(p))));
  text += "<th>recall</th></tr></thead><tbody>\n";
  for (std::size_t t = 0; t < confusion.size(); ++t) {
    std::int64_t total = 0;
    for (const std::int64_t count : confusion[t]) total += count;
    text += fmt::format("<tr><th class=\"text\">{}</th>",
                        escaped(class_name(report, static_cast<std::int64_t>(t))));
    for (const std::int64_t count : confusion[t]) {
      const double share = total > 0 ? static_cast<double>(count) / static_cast<double>(total) : 0;
      text += count == 0 ? std::string("<td class=\"none\">0</td>")
                         : fmt::format("<td{} style=\"--share:{:.3f}\">{}</td>",
                                       share > 0.6 ? " class=\"strong\"" : "", share, count);
    }
    const double correct = static_cast<double>(confusion[t][t]);
    text += fmt::format(
        "<td class=\"recall\">{}</td></tr>\n",
        total > 0 ? percent(correct / static_cast<double>(total)) : std::string("none"));
  }
  return card(text + "</tbody></table>\n");
}

std::string pair_list(const Report& report) {
  std::string text =
      "<table><thead><tr><th class=\"text\">class</th><th "
      "class=\"text\">predicted</th><th>count</th></tr></thead><tbody>\n";
  std::vector<ConfusedPair> all = confused_pairs(report);
  if (all.size() > most_pairs) all.resize(most_pairs);
  for (const ConfusedPair& pair : all)
    text +=
        fmt::format("<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td></tr>\n",
                    escaped(class_name(report, pair.target)),
                    escaped(class_name(report, pair.predicted)), pair.count);
  return card(text + "</tbody></table>\n");
}

std::string confusion(const Report& report) {
  const auto& counts = report.judgement.confusion;
  if (counts.empty())
    return section("confusion", "Confusion", "The model was not evaluated on the test set.", "");
  const bool is_small = counts.size() <= most_classes_in_table;
  return section(
      "confusion", "Confusion",
      is_small
          ? "Test images by class (rows) and predicted class (columns). A stronger colour means a "
            "larger share of the row."
          : fmt::format(
                "The pairs among {} classes that the model confuses most often on the test set.",
                counts.size()),
      is_small ? matrix(report) : pair_list(report));
}

std::string worst(const Report& report) {
  std::string figures;
  for (std::size_t i = 0; i < report.judgement.worst.size(); ++i) {
    const Judged& judged = report.judgement.worst[i];
    figures += "<figure>";
    if (i < report.pictures.size())
      figures += fmt::format("<img alt=\"test image {}\" src=\"data:image/png;base64,{}\">",
                             judged.index, base64(report.pictures[i]));
    const bool is_right = judged.target == judged.predicted;
    figures += fmt::format(
        "<figcaption>class <b>{}</b> ({})<br><span class=\"{}\">predicted <b>{}</b> "
        "({})</span><small>loss "
        "{:.2f}, number {}</small></figcaption></figure>\n",
        escaped(class_name(report, judged.target)), percent(judged.probability_of_target),
        is_right ? "right" : "wrong", escaped(class_name(report, judged.predicted)),
        percent(judged.probability), judged.loss, judged.index);
  }
  if (figures.empty())
    return section("worst", "Highest loss", "The model was not evaluated on the test set.", "");
  return section("worst", "Highest loss",
                 "The test images with the highest loss, with the probabilities of their class and "
                 "of the predicted class. Some may be labelled wrongly.",
                 "<div class=\"worst\">\n" + figures + "</div>\n");
}

// ---- Time ----

std::string time_by_op(const Report& report) {
  if (report.profile == nullptr || report.profile->threads().empty())
    return section("time", "Time by op", "No step was profiled.", "");
  const Profiler& profile = *report.profile;
  const auto steps = static_cast<double>(profile.steps());
  const auto rows = profile.key_averages();
  const bool has_device =
      std::ranges::any_of(rows, [](const KeyAverage& row) { return row.device_ms > 0; });
  std::string text = fmt::format(
      "<table><thead><tr><th class=\"text\">op</th><th class=\"text\">phase</th><th>calls</th>"
      "<th>self ms</th><th></th><th>share</th>{}<th>GFLOP/s</th><th>GB/s</th></tr></thead>"
      "<tbody>\n",
      has_device ? "<th>device ms</th>" : "");
  double largest = 0;
  for (const KeyAverage& row : rows)
    if (row.is_main) largest = std::max(largest, row.share);
  for (const KeyAverage& row : rows) {
    if (!row.is_main || row.share < 5e-4) continue;
    text += fmt::format(
        "<tr><td class=\"text\">{}</td><td class=\"text\">{}</td><td>{}</td><td>{:.3f}</td>"
        "<td class=\"bar\"><i style=\"--share:{:.3f}\"></i></td><td>{}</td>{}<td>{}</td><td>{}</td>"
        "</tr>\n",
        escaped(row.name), name_of(row.phase),
        row.kind == EventKind::root ? std::string()
                                    : fmt::format("{:.4g}", static_cast<double>(row.calls) / steps),
        row.self_ms / steps, largest > 0 ? row.share / largest : 0, percent(row.share),
        has_device ? "<td>" + detail::positive(row.device_ms / steps, 3) + "</td>" : "",
        detail::positive(row.gflops_per_s(), 1), detail::positive(row.gb_per_s(), 1));
  }
  std::string phases;
  for (const auto& [phase, ms] : profile.phases())
    if (ms > 0)
      phases += fmt::format("{}{} {}", phases.empty() ? "" : ", ", name_of(phase),
                            percent(ms / profile.total_ms()));
  return section(
      "time", "Time by op",
      fmt::format(
          "{} steps of rank 0 after a warm-up, {:.3f} ms each: {}. Self time excludes the ops that "
          "an op calls; “other” is time outside all ops. Rows below 0.05 % are left out.{}",
          profile.steps(), profile.total_ms() / steps, phases,
          has_device ? " Self times are times of the host, which puts kernels into the GPU's queue."
                     : ""),
      card(text + "</tbody></table>\n"));
}

/// The buckets of one step above each other, milliseconds after the first gradient.
std::string step_chart(const Overlap& overlap) {
  const dist::StepTimeline& step = overlap.last;
  const auto at = [&](dist::Clock::time_point t) {
    return std::chrono::duration<double, std::milli>(t - step.first_gradient).count();
  };
  Lanes lanes{.title = "The last step",
              .x_label = "milliseconds after the first gradient",
              .lanes = {{"backward",
                         {{0, at(step.backward_end),
                           fmt::format("backward: {:.2f} ms", at(step.backward_end)), 6}}}},
              .mark = at(step.backward_end),
              .mark_name = "backward ends"};
  for (std::size_t b = 0; b < step.buckets.size(); ++b) {
    const auto& bucket = step.buckets[b];
    Lanes::Lane lane{concat("bucket ", b + 1), {}};
    if (bucket.finished != dist::Clock::time_point{} && bucket.started != dist::Clock::time_point{})
      lane.spans.push_back({at(bucket.started), at(bucket.finished),
                            fmt::format("{} bytes: {:.2f} ms", bucket.bytes,
                                        at(bucket.finished) - at(bucket.started)),
                            1});
    lanes.lanes.push_back(std::move(lane));
  }
  return lanes_chart(lanes);
}

std::string overlap(const Report& report) {
  const Overlap& o = report.overlap;
  const char* title = "Computation and communication";
  if (report.world_size == 1)
    return section("overlap", title, "One rank computed alone, without communication.", "");
  if (o.steps == 0)
    return section("overlap", title,
                   "The times of messages are unknown in this run (on a GPU, or with parameter "
                   "averaging); --trace shows collectives.",
                   "");
  const auto n = static_cast<double>(o.steps);
  std::string text =
      "<table><thead><tr><th class=\"text\">in a step</th><th>ms</th></tr></thead><tbody>\n";
  const auto row = [&](const char* what, double ms) {
    text += fmt::format("<tr><td class=\"text\">{}</td><td>{:.3f}</td></tr>\n", what, ms / n);
  };
  row("backward, from the first gradient", o.backward_ms);
  row("gradients were communicated", o.communication_ms);
  row("of this, hidden behind backward", o.hidden_ms);
  row("waited for after backward", o.exposed_ms);
  text += "</tbody></table>\n";
  return section("overlap", title,
                 fmt::format("Means over {} steps of rank 0, of {} ranks: {} of the communication "
                             "was hidden behind backward.",
                             o.steps, report.world_size, percent(o.hidden_share())),
                 "<div class=\"columns\">\n" + card(text) + card(step_chart(o)) + "</div>\n");
}

}  // namespace

std::string html(const Report& report) {
  return fmt::format(
             "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta "
             "name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
             "<title>{0}</title>\n<link rel=\"icon\" "
             "href=\"data:,\">\n<style>{1}</style>\n</head>\n"
             "<body>\n<main>\n<h1>{0}</h1>\n",
             escaped(report.title), report_style) +
         key_figures(report) + curves(report) + confusion(report) + worst(report) +
         time_by_op(report) + overlap(report) + about_the_run(report) +
         "</main>\n</body>\n</html>\n";
}

void write_report(const std::string& path, const Report& report) {
  const std::string page = html(report);
  io::AtomicFile file(path);
  file.write(page.data(), page.size());
  file.commit();
}

}  // namespace rondo::train
