#include "train/progress_bar.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <string_view>

#include "dist/launch/launcher.h"
#include "tensor/error.h"

namespace rondo::train {

std::string format_rate(double per_second) {
  return per_second < 10 ? fmt::format("{:.2f}", per_second) : fmt::format("{:.0f}", per_second);
}

std::string format_duration(double seconds) {
  auto total = static_cast<std::int64_t>(std::llround(std::max(seconds, 0.0)));
  if (total >= 3600)
    return fmt::format("{}:{:02}:{:02}", total / 3600, total / 60 % 60, total % 60);
  return fmt::format("{}:{:02}", total / 60, total % 60);
}

namespace {

bool is_terminal(const std::ostream* out) {
  if (dist::read_launcher()) return false;  // its ranks see a terminal where there may be a file
  const char* kind = std::getenv("TERM");
  if (kind != nullptr && std::string_view(kind) == "dumb") return false;
  return (out == &std::cout && isatty(STDOUT_FILENO)) ||
         (out == &std::cerr && isatty(STDERR_FILENO));
}

}  // namespace

ProgressStyle parse_progress(const std::string& text) {
  if (text == "auto") return ProgressStyle::automatic;
  if (text == "bar") return ProgressStyle::bar;
  if (text == "lines") return ProgressStyle::lines;
  require(text == "none", "progress is \"", text, "\", but must be auto, bar, lines or none");
  return ProgressStyle::none;
}

ProgressBar::ProgressBar(std::ostream* out, std::string title, std::int64_t total, std::string unit,
                         ProgressStyle progress)
    : out_(progress == ProgressStyle::none ? nullptr : out),
      title_(std::move(title)),
      unit_(std::move(unit)),
      total_(std::max<std::int64_t>(total, 1)),
      in_place_(progress == ProgressStyle::automatic ? is_terminal(out)
                                                     : progress == ProgressStyle::bar) {}

ProgressBar::~ProgressBar() {
  if (out_ == nullptr || !in_place_ || width_ == 0) return;
  *out_ << '\r' << std::string(width_, ' ') << '\r' << std::flush;
}

double ProgressBar::rate() const {
  double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
  return seconds > 0 ? static_cast<double>(done_) / seconds : 0;
}

std::string ProgressBar::line(std::int64_t done, const std::string& text) const {
  constexpr std::int64_t bar = 20;
  std::int64_t filled = std::min(bar, bar * done / total_);
  double speed = rate(), left = speed > 0 ? static_cast<double>(total_ - done) / speed : 0;
  return fmt::format(
      "{} [{}{}{}] {:3}%  {} {}/s  {} left  {}", title_,
      std::string(static_cast<std::size_t>(filled), '='), filled < bar ? ">" : "",
      std::string(static_cast<std::size_t>(std::max<std::int64_t>(bar - filled - 1, 0)), ' '),
      100 * done / total_, format_rate(speed), unit_, format_duration(left), text);
}

void ProgressBar::update(std::int64_t done, const std::string& text) {
  done_ = done;
  if (out_ == nullptr) return;
  if (!in_place_) {
    if (10 * done < next_tenth_ * total_) return;
    next_tenth_ = 10 * done / total_ + 1;
    *out_ << line(done, text) << std::endl;
    return;
  }
  auto now = Clock::now();
  if (done < total_ && now - shown_ < std::chrono::seconds(1)) return;
  shown_ = now;
  std::string shown = line(done, text);
  std::size_t length = shown.size();
  if (length < width_) shown.append(width_ - length, ' ');
  width_ = std::max(width_, length);
  *out_ << '\r' << shown << std::flush;
}

}  // namespace rondo::train
