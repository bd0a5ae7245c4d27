#include "extras/report/svg_chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace rondo::train {
namespace {

constexpr double width = 560, height = 280;
constexpr double left = 64, right = 16, top = 34, bottom = 44;
constexpr std::size_t most_points = 400, most_marks = 60;

bool is_finite(const std::pair<double, double>& p) {
  return std::isfinite(p.first) && std::isfinite(p.second);
}

struct AxisRange {
  double low = std::numeric_limits<double>::infinity(),
         high = -std::numeric_limits<double>::infinity();
  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  /// A single value becomes the middle of a range.
  void widen() {
    if (low < high) return;
    const double around = low == 0 ? 1 : std::abs(low) * 0.1;
    low -= around;
    high += around;
  }
};

/// One axis: maps a value to its position in the image.
struct ChartAxis {
  std::vector<double> ticks;
  double begin, end;  // in the image
  double at(double value) const {
    const double low = ticks.front(), high = ticks.back();
    return begin + (value - low) / (high - low) * (end - begin);
  }
};

std::string text(double x, double y, const char* kind, const char* anchor, std::string_view what) {
  return fmt::format("<text class=\"{}\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>",
                     kind, x, y, anchor, escaped(what));
}
std::string line(double x1, double y1, double x2, double y2, const char* kind) {
  return fmt::format("<line class=\"{}\" x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>",
                     kind, x1, y1, x2, y2);
}
std::string opening(const std::string& title, double tall) {
  return fmt::format(
      "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n<text class=\"title\" x=\"{}\" "
      "y=\"18\">{}</text>\n",
      width, tall, escaped(title), left, escaped(title));
}

/// 0.30000000000000004 as 0.3.
std::string number(double value) {
  if (std::abs(value) < 1e-12) return "0";
  return std::abs(value) >= 1e6 || std::abs(value) < 1e-4 ? fmt::format("{:.3g}", value)
                                                          : fmt::format("{:.6g}", value);
}

std::string axes(const ChartAxis& x, const ChartAxis& y, const LineChart& chart) {
  std::string svg;
  for (const double tick : y.ticks) {
    svg += line(left, y.at(tick), width - right, y.at(tick), tick == y.ticks[0] ? "axis" : "grid");
    svg += text(left - 8, y.at(tick) + 4, "tick", "end", number(tick));
  }
  for (const double tick : x.ticks) {
    svg += line(x.at(tick), height - bottom, x.at(tick), height - bottom + 4, "axis");
    svg += text(x.at(tick), height - bottom + 17, "tick", "middle", number(tick));
  }
  svg += text((left + width - right) / 2, height - 8, "label", "middle", chart.x_label);
  return svg + fmt::format(
                   "<text class=\"label\" transform=\"translate(14 {:.1f}) rotate(-90)\" "
                   "text-anchor=\"middle\">{}</text>\n",
                   (top + height - bottom) / 2, escaped(chart.y_label));
}

std::vector<std::pair<double, double>> thinned(std::vector<std::pair<double, double>> points) {
  std::erase_if(points, [](const auto& p) { return !is_finite(p); });
  if (points.size() <= most_points) return points;
  const std::size_t each = (points.size() + most_points - 1) / most_points;
  std::vector<std::pair<double, double>> means;
  for (std::size_t begin = 0; begin < points.size(); begin += each) {
    const std::size_t end = std::min(points.size(), begin + each);
    double x = 0, y = 0;
    for (std::size_t i = begin; i < end; ++i) {
      x += points[i].first;
      y += points[i].second;
    }
    const auto n = static_cast<double>(end - begin);
    means.emplace_back(x / n, y / n);
  }
  return means;
}

std::string curve(const Series& series, std::size_t colour, const ChartAxis& x,
                  const ChartAxis& y) {
  std::string path;
  for (const auto& [px, py] : series.points)
    path += fmt::format("{}{:.1f},{:.1f}", path.empty() ? "" : " ", x.at(px), y.at(py));
  std::string svg =
      fmt::format("<polyline class=\"series series-{}\" points=\"{}\"/>\n", colour, path);
  if (series.points.size() > most_marks) return svg;
  for (const auto& [px, py] : series.points)
    svg += fmt::format(
        "<circle class=\"mark mark-{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.6\"><title>{}: {} at "
        "{}</title></circle>\n",
        colour, x.at(px), y.at(py), escaped(series.name), number(py), number(px));
  return svg;
}

/// To the right of the title.
std::string legend(const std::vector<Series>& series) {
  std::string svg;
  double x = width - right;
  for (std::size_t i = series.size(); i-- > 0;) {
    svg += text(x, 18, "tick", "end", series[i].name);
    x -= 6.6 * static_cast<double>(series[i].name.size()) + 20;
    svg += fmt::format(
        "<line class=\"series series-{}\" x1=\"{:.1f}\" y1=\"14\" x2=\"{:.1f}\" y2=\"14\"/>\n",
        i + 1, x, x + 14);
    x -= 14;
  }
  return svg;
}

}  // namespace

std::string escaped(std::string_view bytes) {
  // Invalid UTF-8, which file names may contain, becomes U+FFFD.
  using nlohmann::json;
  const std::string text =
      json::parse(json(bytes).dump(-1, ' ', false, json::error_handler_t::replace));
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        // HTML allows only tab and line feed among the control characters.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
          out += c;
        else
          out += "\xEF\xBF\xBD";
    }
  }
  return out;
}

std::vector<double> ticks(double low, double high, int count, double least) {
  const double rough = std::max((high - low) / count, least);
  const double magnitude = std::pow(10, std::floor(std::log10(rough)));
  double step = magnitude;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * magnitude;
    if (step >= rough * (1 - 1e-9)) break;
  }
  std::vector<double> all;
  const double first = std::floor(low / step + 1e-9), last = std::ceil(high / step - 1e-9);
  for (double i = first; i <= last; ++i) all.push_back(i * step);
  return all;
}

std::string line_chart(const LineChart& given) {
  LineChart chart = given;
  AxisRange xs, ys;
  for (Series& series : chart.series) {
    series.points = thinned(std::move(series.points));
    for (const auto& [x, y] : series.points) {
      xs.add(x);
      ys.add(y);
    }
  }
  std::string svg = opening(chart.title, height);
  if (!(xs.low <= xs.high))
    return svg + text(width / 2, height / 2, "label", "middle", "nothing was measured") +
           "</svg>\n";
  if (chart.from_zero) ys.add(0);
  xs.widen();
  ys.widen();
  const ChartAxis x{ticks(xs.low, xs.high, 6, given.whole_x ? 1 : 0), left, width - right},
      y{ticks(ys.low, ys.high), height - bottom, top};
  svg += axes(x, y, chart);
  for (std::size_t i = 0; i < chart.series.size(); ++i) svg += curve(chart.series[i], i + 1, x, y);
  if (chart.series.size() > 1) svg += legend(chart.series);
  return svg + "</svg>\n";
}

std::string lanes_chart(const Lanes& chart) {
  constexpr double lane_height = 24;
  const double end = top + lane_height * static_cast<double>(chart.lanes.size());
  std::string svg = opening(chart.title, end + bottom);
  AxisRange range;
  for (const Lanes::Lane& lane : chart.lanes)
    for (const Lanes::Span& span : lane.spans) {
      range.add(span.begin);
      range.add(span.end);
    }
  if (!(range.low <= range.high)) return svg + "</svg>\n";
  range.widen();
  const ChartAxis x{ticks(range.low, range.high, 6), left + 40, width - right};
  for (const double tick : x.ticks) {
    svg += line(x.at(tick), top, x.at(tick), end, "grid");
    svg += text(x.at(tick), end + 17, "tick", "middle", number(tick));
  }
  for (std::size_t i = 0; i < chart.lanes.size(); ++i) {
    const double y = top + lane_height * static_cast<double>(i);
    svg += text(left + 32, y + 16, "tick", "end", chart.lanes[i].name);
    for (const Lanes::Span& span : chart.lanes[i].spans)
      svg += fmt::format(
          "<rect class=\"span span-{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{}\" rx=\"2\"><title>{}</title></rect>\n",
          span.series, x.at(span.begin), y + 4, std::max(0.8, x.at(span.end) - x.at(span.begin)),
          lane_height - 8, escaped(span.tooltip));
  }
  if (!chart.mark_name.empty()) {
    svg += line(x.at(chart.mark), top - 4, x.at(chart.mark), end, "limit");
    svg += text(x.at(chart.mark), top - 8, "tick", "middle", chart.mark_name);
  }
  svg += text((left + width - right) / 2, end + bottom - 8, "label", "middle", chart.x_label);
  return svg + "</svg>\n";
}

}  // namespace rondo::train
