#include "io/result_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>

#include "io/atomic_file.h"
#include "tensor/error.h"

namespace rondo::io {

bool is_written_as_it_stands(const std::string& path) {
  using enum std::filesystem::file_type;
  std::error_code nothing_there;
  const auto type = std::filesystem::status(path, nothing_there).type();
  return type == character || type == block || type == fifo || type == socket;
}

namespace {
bool is_standard_output(const std::string& path) { return path == "-" || path == "/dev/stdout"; }

/// Opens without creating or truncating: another file may have replaced the pipe or device since
/// the check.
void write_as_it_stands(const std::string& flag, const std::string& path, const std::string& text) {
  // With O_NONBLOCK, a pipe without a reader is an error; otherwise open would wait for a reader.
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
  require<IoError>(descriptor >= 0 || errno != ENXIO, flag, " ", path,
                   ": cannot be written: it is a pipe or device that nobody reads");
  if (descriptor >= 0) ::fcntl(descriptor, F_SETFL, O_WRONLY);
  std::FILE* out = descriptor < 0 ? nullptr : ::fdopen(descriptor, "w");
  bool done = out != nullptr;
  if (done && !is_written_as_it_stands(concat("/proc/self/fd/", descriptor))) {
    done = false;
    errno = EEXIST;
  }
  if (done) done = std::fwrite(text.data(), 1, text.size(), out) == text.size();
  if (out != nullptr && std::fclose(out) != 0) done = false;
  require<IoError>(done, flag, " ", path, ": cannot be written: ", std::strerror(errno));
}
}  // namespace

void check_result_file(const std::string& flag, const std::string& path) {
  if (path.empty() || is_standard_output(path)) return;
  if (is_written_as_it_stands(path)) {
    const int error = access(path.c_str(), W_OK) == 0 ? 0 : errno;
    require<IoError>(error == 0, flag, " ", path, ": cannot be written: ", std::strerror(error));
  } else {
    const AtomicFile nothing_written_yet(path);
  }
}

void write_result_file(const std::string& flag, const std::string& path, const std::string& text) {
  if (path.empty()) return;
  if (is_standard_output(path)) {
    std::cout << text << std::flush;
    require<IoError>(std::cout.good(), "standard output cannot be written");
  } else if (is_written_as_it_stands(path)) {
    write_as_it_stands(flag, path, text);
  } else {
    AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
  }
}

}  // namespace rondo::io
