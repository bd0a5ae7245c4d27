#pragma once
// The findings about messages between ranks. Private to extras/doctor.

#include <vector>

#include "extras/doctor/findings.h"

namespace rondo::doctor {

/// Links that are much slower than others of their kind, or slower than their kind should ever be.
void check_links(std::vector<Finding>& all, const Facts& facts);
/// Ranks that would not be informed if another rank ends.
void check_side_channel(std::vector<Finding>& all, const Facts& facts);

}  // namespace rondo::doctor
