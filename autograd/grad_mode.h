#pragma once
// GradMode: whether ops are recorded on the tape. Each thread has its own flag.

#include <string>

namespace rondo {

struct GradMode {
  static bool is_enabled();
  static void set_enabled(bool enabled);
};

/// Sets the mode for a scope.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool enabled) : previous_(GradMode::is_enabled()) {
    GradMode::set_enabled(enabled);
  }
  ~GradModeGuard() { GradMode::set_enabled(previous_); }
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool previous_;
};

/// `NoGradGuard no_grad;`: nothing in this scope is recorded.
struct NoGradGuard : GradModeGuard {
  NoGradGuard() : GradModeGuard(false) {}
};

/// `EnableGradGuard grad;`: recorded again, inside a NoGradGuard.
struct EnableGradGuard : GradModeGuard {
  EnableGradGuard() : GradModeGuard(true) {}
};

/// In this scope every new node remembers where in the model it was created, and backward throws an
/// AutogradError that names the first node whose gradient holds a NaN. Slow; use it to find the
/// origin of NaNs.
class AnomalyMode {
 public:
  explicit AnomalyMode(bool enabled = true) : previous_(is_enabled()) { set_enabled(enabled); }
  ~AnomalyMode() { set_enabled(previous_); }
  AnomalyMode(const AnomalyMode&) = delete;
  AnomalyMode& operator=(const AnomalyMode&) = delete;
  static bool is_enabled();
  static void set_enabled(bool enabled);

 private:
  bool previous_;
};
using detect_anomaly = AnomalyMode;  // PyTorch's name

/// A name that is pushed while a module's forward runs, so that an anomaly error or a profile can
/// say "in layer1.0.conv1".
class ScopeName {
 public:
  explicit ScopeName(const char* name);
  ~ScopeName();
  ScopeName(const ScopeName&) = delete;
  ScopeName& operator=(const ScopeName&) = delete;
  /// The names of all open scopes, joined by dots.
  static std::string path();
};

}  // namespace rondo
