// Flight records of two failures of three ranks: what rondo wrote to RONDO_FLIGHT_RECORD, without
// the first collectives.
//
// start fails: the guilty rank of the first failure is 2, not 1
#include <rondo/rondo.h>

#include <iostream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "exercise.h"

namespace rd = rondo;

namespace {

// Before a step one rank computed for four seconds. The deadline of a collective was two seconds.
const std::vector<std::string> first_failure = {
    R"(rank 0: all_reduce 33 of bucket 1 of 3 (2.bias) failed: rank 1: all_reduce 33 of bucket 1 of 3 (2.bias) gave up after 2 s of waiting for rank 2 to call it

the last collectives of rank 0:
all_reduce 29 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 4.170400 s ago, begun 4.170392 s ago, over 4.011205 s ago, done
all_reduce 30 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 4.052596 s ago, begun 4.011140 s ago, over 4.001866 s ago, done
all_reduce 31 (avg, f32 [2073], by ring) of bucket 3 of 3 (0.weight): issued 4.001809 s ago, begun 4.001788 s ago, over 4.001701 s ago, done
all_reduce 32 (sum, i64 [1], by ring): issued 4.001603 s ago, begun 4.001603 s ago, over 3.991903 s ago, done
all_reduce 33 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 3.991649 s ago, begun 3.991638 s ago, over 0.000582 s ago, failed
all_reduce 34 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 3.991260 s ago, over 0.000144 s ago, failed
)",
    R"(rank 1: all_reduce 33 of bucket 1 of 3 (2.bias) gave up after 2 s of waiting for rank 2 to call it

the last collectives of rank 1:
all_reduce 29 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 4.173495 s ago, begun 4.173486 s ago, over 4.011645 s ago, done
all_reduce 30 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 4.171072 s ago, begun 4.002592 s ago, over 4.002360 s ago, done
all_reduce 31 (avg, f32 [2073], by ring) of bucket 3 of 3 (0.weight): issued 4.002320 s ago, begun 4.002315 s ago, over 4.002194 s ago, done
all_reduce 32 (sum, i64 [1], by ring): issued 4.002122 s ago, begun 4.002121 s ago, over 4.002055 s ago, done
all_reduce 33 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 4.001831 s ago, begun 4.001821 s ago, over 0.001065 s ago, failed
all_reduce 34 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 3.992601 s ago, over 0.000098 s ago, failed
)",
    R"(rank 2: all_reduce 33 of bucket 1 of 3 (2.bias) failed: rank 1: all_reduce 33 of bucket 1 of 3 (2.bias) gave up after 2 s of waiting for rank 2 to call it

the last collectives of rank 2:
all_reduce 29 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 4.253455 s ago, begun 4.253387 s ago, over 4.085609 s ago, done
all_reduce 30 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 4.105326 s ago, begun 4.085529 s ago, over 4.085341 s ago, done
all_reduce 31 (avg, f32 [2073], by ring) of bucket 3 of 3 (0.weight): issued 4.085256 s ago, begun 4.085254 s ago, over 4.085185 s ago, done
all_reduce 32 (sum, i64 [1], by ring): issued 4.085141 s ago, begun 4.085140 s ago, over 4.075529 s ago, done
all_reduce 33 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 0.071919 s ago, begun 0.040120 s ago, over 0.008116 s ago, failed
all_reduce 34 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 0.008024 s ago, begun 0.008015 s ago, over 0.008014 s ago, failed
)"};

// One rank left out a collective.
const std::vector<std::string> second_failure = {
    R"(rank 0: all_reduce 32 failed: rank 1 calls all_reduce 32 (avg, f32 [48], by ring) where rank 0 calls all_reduce 32 (sum, i64 [1], by ring)

the last collectives of rank 0:
all_reduce 29 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 0.146770 s ago, begun 0.146746 s ago, over 0.040650 s ago, done
all_reduce 30 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 0.076082 s ago, begun 0.040616 s ago, over 0.031951 s ago, done
all_reduce 31 (avg, f32 [2073], by ring) of bucket 3 of 3 (0.weight): issued 0.031898 s ago, begun 0.031894 s ago, over 0.031811 s ago, done
all_reduce 32 (sum, i64 [1], by ring): issued 0.004533 s ago, begun 0.004531 s ago, over 0.004364 s ago, failed
)",
    R"(rank 1: all_reduce 32 of bucket 1 of 3 (2.bias) failed: rank 1 calls all_reduce 32 (avg, f32 [48], by ring) where rank 0 calls all_reduce 32 (sum, i64 [1], by ring)

the last collectives of rank 1:
all_reduce 29 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 0.155027 s ago, begun 0.148692 s ago, over 0.041401 s ago, done
all_reduce 30 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 0.148708 s ago, begun 0.041368 s ago, over 0.032717 s ago, done
all_reduce 31 (avg, f32 [2073], by ring) of bucket 3 of 3 (0.weight): issued 0.032649 s ago, begun 0.032646 s ago, over 0.032587 s ago, done
all_reduce 32 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 0.032359 s ago, begun 0.023482 s ago, over 0.005020 s ago, failed
all_reduce 33 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 0.000330 s ago, over 0.000062 s ago, failed
)",
    R"(rank 2: all_reduce 32 failed: rank 1 calls all_reduce 32 (avg, f32 [48], by ring) where rank 0 calls all_reduce 32 (sum, i64 [1], by ring)

the last collectives of rank 2:
all_reduce 29 (avg, f32 [48], by ring) of bucket 1 of 3 (2.bias): issued 0.148763 s ago, begun 0.148737 s ago, over 0.041718 s ago, done
all_reduce 30 (avg, f32 [384], by ring) of bucket 2 of 3 (2.weight … 0.bias): issued 0.143204 s ago, begun 0.033298 s ago, over 0.033094 s ago, done
all_reduce 31 (avg, f32 [2073], by ring) of bucket 3 of 3 (0.weight): issued 0.033057 s ago, begun 0.033053 s ago, over 0.032952 s ago, done
all_reduce 32 (sum, i64 [1], by ring): issued 0.005746 s ago, begun 0.005743 s ago, over 0.005194 s ago, failed
)"};

Record read(const std::string& text) {
  std::istringstream in(text);
  Record record;
  std::getline(in, record.error);
  static const std::regex call("(.*): issued ([0-9.]+) s ago.*");
  std::smatch found;
  for (std::string line; std::getline(in, line);) {
    if (std::regex_match(line, found, call))
      record.calls.push_back({found[1], std::stod(found[2])});
  }
  return record;
}

void check(const char* which, const std::vector<std::string>& texts, int guilty) {
  std::vector<Record> records;
  for (const std::string& text : texts) records.push_back(read(text));
  const int found = guilty_rank(records);
  rd::require(found == guilty, "the guilty rank of the ", which, " failure is ", guilty, ", not ",
              found);
}

int run() {
  check("first", first_failure, 2);
  check("second", second_failure, 1);
  // The same failures of other ranks.
  check("first, renumbered,", {first_failure[2], first_failure[0], first_failure[1]}, 0);
  check("second, renumbered,", {second_failure[0], second_failure[2], second_failure[1]}, 2);
  std::cout << "both guilty ranks are found\n";
  return 0;
}

}  // namespace

int main() { return rd::dist::run(run); }
