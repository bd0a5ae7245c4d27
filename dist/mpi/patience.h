#pragma once
// Patience with MPI's start and end: calls that return only when every rank has come to them, and
// that nothing can interrupt. A rank that is stopped or cut off before would keep the others there
// for ever, and no deadline of a collective is in force yet, or any more.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dist/watch.h"

namespace rondo::dist {

/// While it lives for longer than RONDO_MPI_TIMEOUT, seconds, or `limit` where that is not set, it
/// ends this process: prints "error: rank 0: MPI_Init has not returned for 600 s
/// (RONDO_MPI_TIMEOUT); <reason> (nothing has been heard of rank 2)" to standard error
/// and exits with status 1, at which a launcher ends the other ranks. Who is missing `watch` may
/// know; if it does not, some other rank may, which tells it in the two seconds that follow.
///
/// Where there is a `watch`, it also ends the process when a rank has ended or is given up, and
/// says who; and before a SIGTERM does that for which the program has no handler, it says what
/// `watch` knows: a launcher that misses a rank sends it to the others.
/// Throws CommError when RONDO_MPI_TIMEOUT is no number from 0.1.
class Patience {
 public:
  Patience(const std::string& call, std::chrono::milliseconds limit, const std::string& reason,
           std::shared_ptr<Watch> watch = nullptr);
  ~Patience();
  Patience(const Patience&) = delete;
  Patience& operator=(const Patience&) = delete;

 private:
  void run(const std::string& who, std::chrono::milliseconds limit, const std::string& late,
           Watch* watch);

  bool catches_term_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace rondo::dist
