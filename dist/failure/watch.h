#pragma once
// Watch: what a rank hears of the others outside its collectives, while it waits in one
// (dist/failure/side_channel.h).

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace rondo::dist {

/// Any thread may ask and tell.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Empty, or "rank 1 (process 4242) has ended": what was noticed first.
  virtual std::string ended() const = 0;
  /// Empty, or why some rank has failed, in a collective or otherwise, so that no other need wait
  /// for it.
  virtual std::string failed() const { return {}; }
  /// Tells all ranks why this one has failed, if it can. What is told first counts.
  virtual void tell(const std::string& /*why*/) {}
  virtual bool tells_others() const { return false; }
  /// Tells the others that this rank's program has come to its end: it calls no more collectives.
  virtual void leave() {}
  /// Since when `rank` is known to have told so.
  virtual std::optional<std::chrono::steady_clock::time_point> left(int /*rank*/) const {
    return std::nullopt;
  }
};

/// For the one that knows which rank is missing, when a deadline is over, to say so before others
/// say that they do not know.
inline constexpr std::chrono::nanoseconds most_for_others = std::chrono::seconds(2);

/// What there is to be heard, now and then, by one who waits.
class News {
 public:
  /// Empty, or that a collective has failed elsewhere, or a rank has ended, so long ago that the
  /// launcher would have ended this one, too, if that were all there is to say.
  std::string bad(const Watch& watch, std::chrono::steady_clock::time_point now) {
    if (std::string failed = watch.failed(); !failed.empty()) return failed;
    std::string ended = watch.ended();
    if (ended.empty()) return {};
    if (!first_ended_) first_ended_ = now;
    return now - *first_ended_ > launcher_time ? ended : std::string();
  }

 private:
  static constexpr std::chrono::milliseconds launcher_time{200};  // to end an aborted job's ranks
  std::optional<std::chrono::steady_clock::time_point> first_ended_;
};

/// A function that says what News::bad would; null where nobody listens.
inline std::function<std::string()> news_of(std::shared_ptr<const Watch> watch) {
  if (watch == nullptr) return nullptr;
  return [watch = std::move(watch), news = News()]() mutable {
    return news.bad(*watch, std::chrono::steady_clock::now());
  };
}

}  // namespace rondo::dist
