#pragma once
// Charts as inline SVG, for pages that need no script and no network (extras/report/report.h).
// Sizes are relative to a view box, so the page scales them. The page defines colours and fonts:
// the elements have classes (axis, grid, tick, series-1, …) and no style of their own.
//
// Axes begin and end at round numbers: steps of 1, 2 or 5 times a power of ten (Heckbert, "Nice
// numbers for graph labels", Graphics Gems 1990). All text is escaped.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::train {

/// Escapes text for use between tags and in quoted attributes: & < > " ' and control characters.
std::string escaped(std::string_view bytes);

struct Series {
  std::string name;
  std::vector<std::pair<double, double>>
      points;  // x increasing; points that are not finite are left out
};

struct LineChart {
  std::string title, x_label, y_label;  // the labels include the unit
  std::vector<Series> series;           // at most six have their own colour
  bool from_zero = false;               // the y axis starts at 0
  bool whole_x = false;                 // x is an integer: no ticks in between
};
/// Lines; with few points, a mark and a tooltip at each point; with several series, a legend. More
/// than 400 points are reduced to 400 by averaging. Without points, the chart says so.
std::string line_chart(const LineChart& chart);

/// Round numbers that cover [low, high], about `count` of them, at least `least` apart; low < high.
std::vector<double> ticks(double low, double high, int count = 5, double least = 0);

/// A timeline: events in lanes from top to bottom.
struct Lanes {
  struct Span {
    double begin, end;
    std::string tooltip;
    int series = 1;  // the number of its colour
  };
  struct Lane {
    std::string name;
    std::vector<Span> spans;
  };
  std::string title, x_label;
  std::vector<Lane> lanes;
  double mark = 0;  // a line through all lanes, if `mark_name` is not empty
  std::string mark_name;
};
std::string lanes_chart(const Lanes& chart);

}  // namespace rondo::train
