#pragma once
// The files that the flags name. The program checks them before the work and writes them after it.

#include <nlohmann/json_fwd.hpp>

#include "classifier.h"
#include "dist/collectives/communicator.h"

namespace examples {

/// Call it before anything is computed. Throws Error if two flags name the same output file, or if
/// an output file is also an input or one of the run's own files in --checkpoint-dir. On rank 0,
/// which writes the files, throws IoError if one of them cannot be written.
void check_outputs(const Flags& flags, const rondo::dist::Communicator& comm);

/// Writes the results to --json, if that flag was given. Only rank 0 may call it. Throws IoError.
void write_json(const Flags& flags, const nlohmann::json& result);

}  // namespace examples
