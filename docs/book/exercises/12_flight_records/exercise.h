#pragma once
// What start.cpp and solution.cpp define, and what they may use.

#include <string>
#include <vector>

/// One collective of a flight record.
struct Call {
  std::string text;  // "all_reduce 32 (sum, i64 [1], by ring)"
  double issued;     // seconds before the rank wrote its record
};

/// What one rank wrote when it failed.
struct Record {
  std::string error;  // "rank 0: all_reduce 32 failed: …"
  std::vector<Call> calls;
};

/// Returns the rank that caused the failure. records[r] is the record of rank r. All of them begin
/// with the same collective, and were written within a second.
int guilty_rank(const std::vector<Record>& records);
