// The page of a run: all sections, escaped external text, charts within their frame.

#include "extras/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "extras/report/svg_chart.h"
#include "io/encode_png.h"
#include "support/errors.h"
#include "support/files.h"
#include "tensor/creation.h"

namespace rondo::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* hostile = "<script>alert('\"&')</script>";

Report full_report() {
  Report report{.title = hostile};
  report.results = {{"test accuracy", "91.2 %"}};
  report.configuration = {{"--data", hostile}};
  report.environment = {{hostile, "2 cores"}};
  for (double epoch : {1.0, 2.0, 3.0})
    report.epochs.push_back({{"epoch", epoch},
                             {"train_loss", 2 / epoch},
                             {"test_loss", 1.9 / epoch},
                             {"test_accuracy", 0.3 * epoch},
                             {"img_per_s", 1000.0}});
  report.steps = {.first = 1, .loss = {2.5, 2.25, 2}, .lr = {0.1, 0.2, 0.1}};
  report.class_names = {"cat", hostile};
  report.judgement.confusion = {{6, 2}, {0, 8}};
  report.judgement.worst = {{.index = 13,
                             .target = 0,
                             .predicted = 1,
                             .probability = 0.99,
                             .probability_of_target = 0.01,
                             .loss = 4.605}};
  report.pictures = {io::encode_png(zeros({3, 4, 4}, {.dtype = u8}))};
  auto profiler = std::make_shared<Profiler>();
  {
    const auto recording = profiler->start();
    const OpRange op(hostile);
    profiler->step();
  }
  report.profile = profiler;
  report.world_size = 2;
  const dist::Clock::time_point start{std::chrono::seconds(5)};
  const auto at = [&](int ms) { return start + std::chrono::milliseconds(ms); };
  report.overlap.add({.first_gradient = start,
                      .backward_end = at(10),
                      .synchronized = at(14),
                      .buckets = {{.bytes = 400, .started = at(2), .finished = at(6)},
                                  {.bytes = 800, .started = at(6), .finished = at(14)}}});
  return report;
}

TEST(Report, HasAllSectionsAndIsOneFile) {
  const std::string page = html(full_report());
  for (const char* id : {"results", "run", "curves", "confusion", "worst", "time", "overlap"})
    EXPECT_THAT(page, HasSubstr(concat("id=\"", id, '"')));
  for (const char* chart :
       {"Loss by epoch", "Test accuracy", "Loss by step", "Learning rate", "Speed"})
    EXPECT_THAT(page, HasSubstr(concat("aria-label=\"", chart, '"')));
  EXPECT_THAT(page, HasSubstr("data:image/png;base64,iVBORw0KGgo"));      // a PNG's first bytes
  EXPECT_THAT(page, HasSubstr("<td class=\"recall\">75.0&nbsp;%</td>"));  // 6 of 8
  EXPECT_THAT(page, HasSubstr("loss 4.61, number 13"));
  // 4 and 4 of 12 ms are before the end of backward.
  EXPECT_THAT(page, HasSubstr("66.7&nbsp;% of the communication was hidden"));
  // The page loads nothing from elsewhere.
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
}

TEST(Report, TextFromOutsideStaysText) {
  const std::string page = html(full_report());
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, HasSubstr("<title>&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;"));
  EXPECT_EQ(escaped("\xFF"
                    "b"),
            "\xEF\xBF\xBD"
            "b");  // not UTF-8
  EXPECT_EQ(escaped("a\x01"
                    "b\tc"),
            "a\xEF\xBF\xBD"
            "b\tc");
}

TEST(Report, SaysWhatThereIsNot) {
  const std::string page = html({.title = "empty"});
  EXPECT_THAT(page, HasSubstr("nothing was measured"));
  EXPECT_THAT(page, HasSubstr("No step was profiled."));
  EXPECT_THAT(page, HasSubstr("One rank computed alone"));
  EXPECT_THAT(page, HasSubstr("was not evaluated on the test set"));
  EXPECT_THAT(html({.title = "", .world_size = 2}), HasSubstr("are unknown in this run"));
}

TEST(Report, ManyClassesAreListedByTheirConfusions) {
  Report report{.title = "many"};
  report.judgement.confusion.assign(100, std::vector<std::int64_t>(100, 0));
  report.judgement.confusion[3][97] = 5;
  const std::string page = html(report);
  EXPECT_THAT(page, HasSubstr("<td class=\"text\">class 3</td><td class=\"text\">class 97</td>"
                              "<td>5</td>"));
  EXPECT_LT(page.size(), 40'000U);
}

TEST(Report, IsWrittenWholeOrNotAtAll) {
  const test::TemporaryFolder folder;
  const Report report = full_report();
  write_report(folder / "report.html", report);
  std::ifstream in(folder / "report.html");
  std::stringstream text;
  text << in.rdbuf();
  EXPECT_EQ(text.str(), html(report));
  EXPECT_TRUE(text.str().ends_with("</html>\n"));
  EXPECT_ERROR(write_report(folder / "no" / "report.html", report), IoError, "no/report.html");
}

TEST(SvgChart, TicksAreRoundAndCoverTheRange) {
  EXPECT_THAT(ticks(0, 1), ElementsAre(0, 0.2, ::testing::DoubleEq(0.4), ::testing::DoubleEq(0.6),
                                       ::testing::DoubleEq(0.8), 1));
  EXPECT_THAT(ticks(0.3, 11.2), ElementsAre(0, 5, 10, 15));
  EXPECT_THAT(ticks(-3, 3), ElementsAre(-4, -2, 0, 2, 4));
  EXPECT_THAT(ticks(1, 2, 6, 1), ElementsAre(1, 2));
  EXPECT_THAT(ticks(900, 2100), ElementsAre(500, 1000, 1500, 2000, 2500));
}

/// Every number in attributes that position elements.
std::vector<double> places(const std::string& svg, const std::string& attribute) {
  std::vector<double> all;
  const std::string opening = " " + attribute + "=\"";
  for (auto at = svg.find(opening); at != svg.npos; at = svg.find(opening, at + 1))
    all.push_back(std::stod(svg.substr(at + opening.size())));
  return all;
}

TEST(SvgChart, PointsLieWithinTheFrame) {
  const double nan = std::nan("");
  const std::string svg = line_chart(
      {.title = "t",
       .x_label = "x",
       .y_label = "y",
       .series = {{"a", {{1, -5}, {2, nan}, {3, INFINITY}, {4, 1e9}}}, {"b", {{1, 0}}}}});
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_THAT(svg, Not(HasSubstr("inf")));
  EXPECT_EQ(places(svg, "cx").size(), 3U);
  for (double x : places(svg, "cx")) EXPECT_TRUE(0 <= x && x <= 560) << x;
  for (double y : places(svg, "cy")) EXPECT_TRUE(0 <= y && y <= 280) << y;
}

TEST(SvgChart, OneValueAndManyValuesAreDrawn) {
  EXPECT_EQ(places(line_chart({.series = {{"a", {{1, 7}}}}}), "cx").size(), 1U);
  EXPECT_EQ(places(line_chart({.series = {{"a", {{1, 0}, {2, 0}}}}}), "cx").size(), 2U);
  Series many{"many", {}};
  for (int i = 0; i < 100'000; ++i) many.points.emplace_back(i, i % 2);
  const std::string svg = line_chart({.series = {many}});
  EXPECT_LT(svg.size(), 12'000U);
  EXPECT_THAT(places(svg, "cx"), ::testing::IsEmpty());
}

}  // namespace
}  // namespace rondo::train
