#pragma once
// Findings: what is wrong, one sentence each, with what to do about it. A pure function of the
// facts: tests/extras/doctor/doctor_test.cpp writes down a cluster for each of them.

#include <string>
#include <vector>

#include "extras/doctor/facts.h"

namespace rondo::doctor {

enum class Severity {
  note,   // works, but know it
  slow,   // works, and could be faster
  broken  // a run fails, or is not the run that was meant
};

struct Finding {
  Severity severity;
  std::string name;  // for scripts: "affinity", "launcher"
  std::string text;
};

/// What is broken first, then what is slow, then notes. Empty: nothing was found.
std::vector<Finding> find(const Facts& facts);

/// "note", "slow" or "broken".
const char* name_of(Severity severity);

}  // namespace rondo::doctor
