#include "dist/mpi/patience.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "dist/environment.h"

namespace rondo::dist {

Patience::Patience(std::chrono::milliseconds limit, std::string sentence)
    : thread_([this, limit, sentence = std::move(sentence)] {
        std::unique_lock lock(mutex_);
        if (changed_.wait_for(lock, limit, [this] { return is_over_; })) return;
        std::fprintf(stderr, "error: %s\n", sentence.c_str());
        std::_Exit(EXIT_FAILURE);  // what runs at exit would wait for MPI again
      }) {}

Patience::~Patience() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

std::chrono::milliseconds Patience::from_environment(std::chrono::milliseconds otherwise) {
  return seconds_from_environment("RONDO_MPI_TIMEOUT", 0.1).value_or(otherwise);
}

}  // namespace rondo::dist
