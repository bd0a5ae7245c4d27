#pragma once
// The report as text: for people, and to be pasted into a question. Equal answers of several ranks
// are one line.

#include <string>
#include <vector>

#include "extras/doctor/findings.h"

namespace rondo::doctor {

/// What is there.
std::string describe_facts(const Facts& facts);
/// What was measured.
std::string describe_measurements(const Facts& facts);
std::string describe_findings(const std::vector<Finding>& findings);
/// All of it as a JSON object, indented.
std::string to_json(const Facts& facts, const std::vector<Finding>& findings);

}  // namespace rondo::doctor
