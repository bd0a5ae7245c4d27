#pragma once
// Watch: what a rank learns about the other ranks outside of its collectives, while it waits in one
// (dist/failure/side_channel.h).

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace rondo::dist {

/// Thread-safe.
class Watch {
 public:
  virtual ~Watch() = default;
  /// Empty, or "rank 1 (process 4242) has ended": the first event that was noticed.
  virtual std::string ended() const = 0;
  /// Empty, or why some rank has failed, in a collective or otherwise. No rank needs to wait for
  /// it.
  virtual std::string failed() const { return {}; }
  /// Tells all ranks why this one has failed, if possible. Only the first call counts.
  virtual void tell(const std::string& /*why*/) {}
  virtual bool tells_others() const { return false; }
  /// Tells the others that this rank's program has ended: it calls no more collectives.
  virtual void finalize() {}
  /// When this rank learned that `rank` has called `finalize`; empty if it has not.
  virtual std::optional<std::chrono::steady_clock::time_point> finalized(int /*rank*/) const {
    return std::nullopt;
  }
};

/// Extra time after a deadline: a rank that knows which rank is missing reports it first, before
/// ranks that do not know report a timeout.
inline constexpr std::chrono::nanoseconds grace_for_reports = std::chrono::seconds(2);

/// Decides which news from other ranks a waiting rank should act on.
class PeerNews {
 public:
  /// Empty, or a sentence: that a collective has failed elsewhere, or that a rank has ended. The
  /// second is returned only after `launcher_time`: a launcher that aborts the job would have ended
  /// this rank by then, and meanwhile a rank may tell why it failed.
  std::string bad(const Watch& watch, std::chrono::steady_clock::time_point now) {
    if (std::string failed = watch.failed(); !failed.empty()) return failed;
    std::string ended = watch.ended();
    if (ended.empty()) return {};
    if (!first_ended_) first_ended_ = now;
    return now - *first_ended_ > launcher_time ? ended : std::string();
  }

 private:
  static constexpr std::chrono::milliseconds launcher_time{
      200};  // that a launcher needs to end an aborted job's ranks
  std::optional<std::chrono::steady_clock::time_point> first_ended_;
};

/// A function that returns PeerNews::bad of `watch`; null if `watch` is null.
inline std::function<std::string()> news_of(std::shared_ptr<const Watch> watch) {
  if (watch == nullptr) return nullptr;
  return [watch = std::move(watch), news = PeerNews()]() mutable {
    return news.bad(*watch, std::chrono::steady_clock::now());
  };
}

}  // namespace rondo::dist
