#pragma once
// Watch: what a rank hears of the others beside its collectives, while it waits in one
// (dist/side_channel.h).

#include <chrono>
#include <functional>
#include <optional>
#include <string>

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
  /// Empty, or "nothing has been heard of rank 2": those of whom there should have been something.
  virtual std::string absent() const { return {}; }
  /// Tells the others that this rank's program has come to its end: it calls no more collectives.
  virtual void leave() {}
  /// Since when `rank` is known to have told so; its neighbours know.
  virtual std::optional<std::chrono::steady_clock::time_point> left(int /*rank*/) const {
    return std::nullopt;
  }
  using Warn = std::function<void(const std::string&)>;
  /// The last that this rank does: says goodbye, and waits for the others to say so or to end,
  /// while it hears of them. Empty, or of whom nothing was heard. `warn` is told, by some thread,
  /// who has left and still does not end, though it lives. Once, by the thread that ends the
  /// program.
  virtual std::string part(const Warn& /*warn*/ = {}) { return {}; }
};

}  // namespace rondo::dist
