#pragma once
// A result that a program writes for other programs where a flag says: --json FILE.
//
// "-" and /dev/stdout, which opened anew would empty a redirected log, are standard output, an
// empty path is nowhere; a pipe or a device is written as it stands, and a file appears whole or
// not at all.

#include <string>

namespace rondo::io {

/// Whether `path` is a pipe, a socket or a device, as against a file, which is replaced at once.
bool is_written_as_it_stands(const std::string& path);

/// Throws IoError naming the file where the result could not be written: before the work, not after
/// it.
void check_result_file(const std::string& flag, const std::string& path);

/// Throws IoError naming the file.
void write_result_file(const std::string& flag, const std::string& path, const std::string& text);

}  // namespace rondo::io
