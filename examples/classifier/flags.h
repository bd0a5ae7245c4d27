#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "classifier.h"
#include "tensor/error.h"

namespace rondo::dist {
class Communicator;
}

namespace examples {

/// The flags of a command line; or what to print for --help; or the sentence about a flag that is
/// unknown or out of range, which is to be thrown once the ranks can tell each other.
struct Parsed {
  Flags flags;
  std::optional<std::string> help, error;
};
Parsed parse_flags(int argc, char** argv, const std::string& description, const Flags& defaults);

/// Every flag that ranks share, "--lr" and "0.3", in the order of their importance to them.
std::vector<std::pair<std::string, std::string>> listed(const Flags& flags);

/// Throws on all ranks, naming rank and flag, when a rank was started with other flags than rank 0.
void agree_on_flags(const Flags& flags, rondo::dist::Communicator& comm);

/// "0.5,0.5,0.5" as numbers, one for each channel; throws Error naming the flag.
std::vector<float> parse_channels(const std::string& flag, const std::string& text,
                                  std::int64_t channels);

/// What work() gives. Where it throws, the flag that it is for comes before the sentence.
template <class Work>
auto for_flag(const std::string& flag, const Work& work) {
  try {
    return work();
  } catch (const rondo::Error& error) {
    throw rondo::Error(rondo::concat(flag, ": ", error.what()));
  }
}

}  // namespace examples
