#pragma once
// The files that the flags ask for: checked before the work, written after it.

#include <nlohmann/json_fwd.hpp>

#include "classifier.h"
#include "dist/collectives/communicator.h"

namespace examples {

/// Throws, before anything is computed: Error where a file that a flag asks for is another's, one
/// of the run's own in --checkpoint-dir, or read; on rank 0, which writes them, IoError where one
/// cannot be written.
void check_outputs(const Flags& flags, const rondo::dist::Communicator& comm);

/// What the program has come to, to --json, if it is there. For rank 0. Throws IoError.
void write_json(const Flags& flags, const nlohmann::json& result);

}  // namespace examples
