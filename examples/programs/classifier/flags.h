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

/// The flags of a command line; or the text of --help; or the error message for a flag that is
/// unknown or out of range. The caller throws the error after dist::init, when one rank's error can
/// end all ranks.
struct Parsed {
  Flags flags;
  std::optional<std::string> help, error;
};
Parsed parse_flags(int argc, char** argv, const std::string& description, const Flags& defaults);

/// All flags that must be equal on all ranks, as pairs such as "--lr" and "0.3". agree_on_flags
/// compares them in this order.
std::vector<std::pair<std::string, std::string>> listed(const Flags& flags);

/// Throws on all ranks if a rank was started with other flags than rank 0. The error names the rank
/// and the flag. Collective.
void agree_on_flags(const Flags& flags, rondo::dist::Communicator& comm);

/// Parses a list such as "0.5,0.5,0.5", one number for each channel. Throws Error naming the flag.
std::vector<float> parse_channels(const std::string& flag, const std::string& text,
                                  std::int64_t channels);

/// Returns work(). If it throws an Error, puts the name of the flag in front of the message.
template <class Work>
auto for_flag(const std::string& flag, const Work& work) {
  try {
    return work();
  } catch (const rondo::Error& error) {
    throw rondo::Error(rondo::concat(flag, ": ", error.what()));
  }
}

}  // namespace examples
