#pragma once
// Charts as inline SVG, for pages that must show themselves without a script or a network
// (extras/report/report.h). Sizes are of a view box, so that the page scales them; colours and
// fonts are the page's: the elements have classes (axis, grid, tick, series-1, …) and no style of
// their own.
//
// Axes begin and end at round numbers: steps of 1, 2 or 5 times a power of ten, as in Heckbert,
// "Nice numbers for graph labels", Graphics Gems 1990. All text is escaped.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rondo::train {

/// Text as it may stand between tags and in quoted attributes: & < > " ' and control characters.
std::string escaped(std::string_view bytes);

struct Series {
  std::string name;
  std::vector<std::pair<double, double>>
      points;  // x rising; those that are not finite are left out
};

struct LineChart {
  std::string title, x_label, y_label;  // labels name the unit
  std::vector<Series> series;           // at most six have a colour of their own
  bool from_zero = false;               // the y axis reaches down to 0
  bool whole_x = false;                 // x counts something: no ticks between whole numbers
};
/// Lines, with a mark and a tooltip at each point where there are few, a legend where there are
/// several series. Of more than 400 points, means of as many as are needed to be 400. Without a
/// point it says so.
std::string line_chart(const LineChart& chart);

/// Round numbers that cover [low, high], about `count` of them, no closer than `least`; low < high.
std::vector<double> ticks(double low, double high, int count = 5, double least = 0);

/// What happened when, in lanes from top to bottom.
struct Lanes {
  struct Span {
    double begin, end;
    std::string tooltip;
    int series = 1;  // its colour
  };
  struct Lane {
    std::string name;
    std::vector<Span> spans;
  };
  std::string title, x_label;
  std::vector<Lane> lanes;
  double mark = 0;  // a line through all of them, where `mark_name` is not empty
  std::string mark_name;
};
std::string lanes_chart(const Lanes& chart);

}  // namespace rondo::train
