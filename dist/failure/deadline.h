#pragma once
// Deadline: a time limit for MPI calls that return only when every rank has called them, and that
// nothing can interrupt: MPI_Init, MPI_Comm_dup, MPI_Finalize.

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "dist/failure/watch.h"

namespace rondo::dist {

/// If it lives longer than RONDO_MPI_TIMEOUT seconds (`limit` if that is not set), it ends this
/// process: it prints "error: rank 0: MPI_Init has not returned for 600 s (RONDO_MPI_TIMEOUT);
/// <reason>" to standard error and exits with status 1. The launcher then ends the other ranks.
///
/// If `watch` reports that a rank has ended, it ends this process at once: "error: rank 0:
/// MPI_Finalize does not return: rank 2 (process 4242) has ended". It prints nothing if a rank has
/// already told why it failed. Throws CommError if RONDO_MPI_TIMEOUT is not a number of at least
/// 0.1.
class Deadline {
 public:
  Deadline(const std::string& call, std::chrono::milliseconds limit, const std::string& reason,
           std::shared_ptr<Watch> watch = nullptr);
  ~Deadline();
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_over_ = false;
  std::thread thread_;
};

}  // namespace rondo::dist
