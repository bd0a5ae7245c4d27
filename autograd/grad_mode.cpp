#include "autograd/grad_mode.h"

#include <vector>

namespace rondo {
namespace {

thread_local bool grad_enabled = true;
thread_local bool anomaly_enabled = false;
thread_local std::vector<const char*> scopes;

}  // namespace

bool GradMode::is_enabled() { return grad_enabled; }
void GradMode::set_enabled(bool enabled) { grad_enabled = enabled; }

bool AnomalyMode::is_enabled() { return anomaly_enabled; }
void AnomalyMode::set_enabled(bool enabled) { anomaly_enabled = enabled; }

ScopeName::ScopeName(const char* name) { scopes.push_back(name); }
ScopeName::~ScopeName() { scopes.pop_back(); }

std::string ScopeName::path() {
  std::string path;
  for (const char* name : scopes) (path += path.empty() ? "" : ".") += name;
  return path;
}

}  // namespace rondo
