#pragma once
// The result of a program for other programs, written to the file that a flag names: --json FILE.
//
// "-" and /dev/stdout mean standard output; /dev/stdout is not reopened, because that would
// truncate a redirected log. An empty path means no output. A pipe or a device is written directly;
// a regular file appears whole or not at all.

#include <string>

namespace rondo::io {

/// Whether `path` is a pipe, a socket or a device, which is written directly; a file is replaced
/// atomically.
bool is_written_as_it_stands(const std::string& path);

/// Throws IoError naming the file if the result could not be written. Call it before the work, so
/// that the work is not lost.
void check_result_file(const std::string& flag, const std::string& path);

/// Throws IoError naming the file.
void write_result_file(const std::string& flag, const std::string& path, const std::string& text);

}  // namespace rondo::io
