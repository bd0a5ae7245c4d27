#pragma once
// What findings.cpp has to say about messages between ranks. Private to extras/doctor.

#include <vector>

#include "extras/doctor/findings.h"

namespace rondo::doctor {

/// Links that are far slower than others of their kind, or slower than their kind should ever be.
void check_links(std::vector<Finding>& all, const Facts& facts);
/// Ranks that would not hear of another's end.
void check_side_channel(std::vector<Finding>& all, const Facts& facts);

}  // namespace rondo::doctor
