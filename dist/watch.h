#pragma once
// Watch: what a rank hears of the others beside its collectives, while it waits in one
// (dist/side_channel.h).

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
};

}  // namespace rondo::dist
