#pragma once
// Whether a profile is being recorded (record_function.h). A header of its own, since every kernel
// asks.

#include <atomic>

namespace rondo {

namespace detail {
extern std::atomic<bool> recording;
}  // namespace detail

/// Whether a recording is running. One relaxed load: data of a recording that has just begun is
/// protected by the log's mutex.
inline bool is_recording() { return detail::recording.load(std::memory_order_relaxed); }

}  // namespace rondo
