#pragma once
// Findings: the problems, one sentence each, with what to do. A pure function of the facts:
// tests/extras/doctor/doctor_test.cpp describes a cluster for each finding.

#include <string>
#include <vector>

#include "extras/doctor/facts.h"

namespace rondo::doctor {

enum class Severity {
  note,   // works, but the user should know it
  slow,   // works, but could be faster
  broken  // a run fails, or does not do what the user intended
};

struct Finding {
  Severity severity;
  std::string name;  // for scripts: "affinity", "launcher"
  std::string text;
};

/// First what is broken, then what is slow, then notes. Empty if no problem was found.
std::vector<Finding> find(const Facts& facts);

/// "note", "slow" or "broken".
const char* name_of(Severity severity);

}  // namespace rondo::doctor
