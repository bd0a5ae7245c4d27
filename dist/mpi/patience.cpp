#include "dist/mpi/patience.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "tensor/error.h"

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
  const char* text = std::getenv("RONDO_MPI_TIMEOUT");
  if (text == nullptr) return otherwise;
  double seconds = 0;
  const std::string_view view(text);
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), seconds);
  require<CommError>(
      error == std::errc() && end == view.data() + view.size() && seconds > 0 && seconds <= 1e6,
      "RONDO_MPI_TIMEOUT is \"", text, "\", not a number of seconds above 0");
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace rondo::dist
