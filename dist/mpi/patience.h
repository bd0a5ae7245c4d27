#pragma once
// Patience with MPI's start and end: calls that return only when every rank has come to them, and
// that nothing can interrupt. A rank that is stopped or cut off before would keep the others there
// for ever, and no deadline of a collective, no side channel is in force yet, or any more.

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace rondo::dist {

/// While it lives for longer than `limit`, it ends this process: prints "error: <sentence>" to
/// standard error and exits with status 1, at which a launcher ends the other ranks.
class Patience {
 public:
  Patience(std::chrono::milliseconds limit, std::string sentence);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

  /// RONDO_MPI_TIMEOUT, seconds, from the environment, or `otherwise` where it is not set. Throws
  /// CommError when it is no number from 0.1.
  static std::chrono::milliseconds from_environment(std::chrono::milliseconds otherwise);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace rondo::dist
