#pragma once
// The report as text, for people to read and to paste into a question. Equal answers of several
// ranks are printed as one line.

#include <string>
#include <vector>

#include "extras/doctor/findings.h"

namespace rondo::doctor {

/// The facts.
std::string describe_facts(const Facts& facts);
/// The measurements.
std::string describe_measurements(const Facts& facts);
std::string describe_findings(const std::vector<Finding>& findings);
/// The whole report as an indented JSON object.
std::string to_json(const Facts& facts, const std::vector<Finding>& findings);

}  // namespace rondo::doctor
