// Downloads one file with libcurl. Bytes in NAME.part are kept and only the rest is requested. NAME
// appears only after its checksum was verified.

#include <curl/curl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string_view>

#include "data/download.h"
#include "data/files.h"
#include "tensor/own_file.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

struct TransferCloser {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
};

/// NAME.part.
class PartialFile {
 public:
  explicit PartialFile(const fs::path& path) : file_(path.string(), OwnFile::Mode::append) {}
  fs::path path() const { return file_.path(); }
  std::int64_t size() const {
    struct stat file {};
    require<IoError>(::fstat(file_.descriptor(), &file) == 0, file_.path(), ": ",
                     std::strerror(errno));
    return file.st_size;
  }
  void write(std::string_view bytes) { file_.write(bytes); }
  void empty() {
    require<IoError>(::ftruncate(file_.descriptor(), 0) == 0, file_.path(),
                     ": cannot be emptied: ", std::strerror(errno));
  }
  void remove() { ::unlink(file_.path().c_str()); }

 private:
  OwnFile file_;
};

/// The state of one attempt, for curl's callbacks.
struct Transfer {
  const RemoteFile& remote;
  const DownloadOptions& options;
  PartialFile& part;
  std::int64_t before;  // bytes in `part` before this attempt
  std::int64_t received = 0;
  std::exception_ptr thrown;  // thrown by a callback; rethrown after curl's C functions return
};

std::int64_t limit_of(const RemoteFile& remote) {
  return remote.bytes > 0 ? remote.bytes : std::int64_t{4} << 30;
}

std::size_t write_body(char* data, std::size_t, std::size_t size, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  try {
    const std::int64_t after =
        transfer.before + transfer.received + static_cast<std::int64_t>(size);
    const std::int64_t limit = limit_of(transfer.remote);
    if (after > limit) {
      transfer.part.remove();
      throw IoError(concat(transfer.remote.url, ": is longer than the ", limit,
                           transfer.remote.bytes > 0
                               ? " bytes that it should have"
                               : " bytes that are allowed if RemoteFile::bytes is not set",
                           "; the download was discarded"));
    }
    transfer.part.write({data, size});
    transfer.received += static_cast<std::int64_t>(size);
    return size;
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 0;
  }
}

int report(void* context, curl_off_t total, curl_off_t now, curl_off_t, curl_off_t) {
  auto& transfer = *static_cast<Transfer*>(context);
  try {
    if (transfer.options.progress) {
      transfer.options.progress(transfer.remote.name, transfer.before + now,
                                total > 0 ? transfer.before + total : 0);
    }
  } catch (...) {
    transfer.thrown = std::current_exception();
    return 1;
  }
  return 0;
}

struct Outcome {
  CURLcode code;
  std::string reason;
  long http_status;
  std::int64_t before, received;
};

void allow_protocols(CURL* curl) {
  // A caller may use http:// or file://, but a server may not redirect to them.
#if LIBCURL_VERSION_NUM >= 0x075500
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "https,http,file");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "https");
#else
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS,
                   long{CURLPROTO_HTTPS | CURLPROTO_HTTP | CURLPROTO_FILE});
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS, long{CURLPROTO_HTTPS});
#endif
}

/// Appends the server's bytes after those already in `part`.
Outcome attempt(const RemoteFile& remote, PartialFile& part, const DownloadOptions& options) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  Outcome outcome{CURLE_OK, "", 0, part.size(), 0};
  const std::unique_ptr<CURL, TransferCloser> curl(curl_easy_init());
  require(curl != nullptr, "libcurl cannot be initialised");
  Transfer transfer{.remote = remote,
                    .options = options,
                    .part = part,
                    .before = outcome.before,
                    .thrown = nullptr};
  char reason[CURL_ERROR_SIZE] = "";
  auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, remote.url.c_str());
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_NOSIGNAL, 1L);  // other threads are running
  allow_protocols(curl.get());
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_timeout));
  set(CURLOPT_LOW_SPEED_LIMIT, static_cast<long>(options.minimum_rate));
  set(CURLOPT_LOW_SPEED_TIME, static_cast<long>(options.patience));
  set(CURLOPT_USERAGENT, "rondo");
  set(CURLOPT_RESUME_FROM_LARGE, static_cast<curl_off_t>(outcome.before));
  set(CURLOPT_WRITEFUNCTION, write_body);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, report);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
  outcome.code = curl_easy_perform(curl.get());
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &outcome.http_status);
  outcome.reason = *reason ? reason : curl_easy_strerror(outcome.code);
  if (outcome.code == CURLE_UNSUPPORTED_PROTOCOL && outcome.http_status != 0)
    outcome.reason += "; a redirect may lead to https only";
  outcome.received = transfer.received;
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  return outcome;
}

/// The server does not support ranges, or the .part is at least as long as the file: start again.
bool wants_fresh_start(const Outcome& outcome) {
  return outcome.before > 0 &&
         (outcome.code == CURLE_RANGE_ERROR || outcome.code == CURLE_BAD_DOWNLOAD_RESUME ||
          outcome.http_status == 416);
}

/// Downloads until the file is complete.
void fetch(const RemoteFile& remote, PartialFile& part, const DownloadOptions& options) {
  for (int tries = 1;; ++tries) {
    const Outcome outcome = attempt(remote, part, options);
    if (outcome.code == CURLE_OK) return;
    if (wants_fresh_start(outcome)) {
      part.empty();
      continue;
    }
    // If the connection broke after some bytes had arrived, try again.
    if (outcome.received > 0 && outcome.http_status < 400 && tries < 5) continue;
    const std::int64_t have = part.size();
    if (have == 0) part.remove();
    throw IoError(
        concat(remote.url, ": cannot be downloaded (", outcome.reason, ")",
               have > 0 ? concat("; the ", have, " bytes so far are kept in ", part.path().string())
                        : std::string{}));
  }
}

/// Describes what is wrong with a file; empty for the right one.
std::string fault_of(const fs::path& path, const RemoteFile& file) {
  const std::int64_t bytes = size_of_file(path);
  if (file.bytes > 0 && bytes != file.bytes)
    return concat(": has ", bytes, " bytes instead of ", file.bytes);
  const std::string found = sha256_of(path);
  return found == file.checksum ? "" : concat(": checksum ", found, " instead of ", file.checksum);
}

}  // namespace

void download(const RemoteFile& file, const std::string& path, const DownloadOptions& options) {
  require(file.checksum.size() == 64 &&
              file.checksum.find_first_not_of("0123456789abcdef") == std::string::npos,
          file.name, ": the checksum '", file.checksum,
          "' is not a SHA-256 (64 hexadecimal digits in lower case)");
  std::error_code error;
  if (fs::exists(path, error) && fault_of(path, file).empty()) return;
  PartialFile part(path + ".part");
  if (part.size() > limit_of(file)) part.empty();
  const bool resumed = part.size() > 0;
  std::string fault = resumed ? fault_of(part.path(), file) : "not there";
  if (!fault.empty()) {
    fetch(file, part, options);
    fault = fault_of(part.path(), file);
  }
  if (!fault.empty() && resumed) {  // the first part may have been another file's
    part.empty();
    fetch(file, part, options);
    fault = fault_of(part.path(), file);
  }
  if (!fault.empty()) {
    part.remove();
    throw IoError(concat(file.url, fault, "; the download was discarded"));
  }
  fs::rename(part.path(), path, error);
  require<IoError>(!error, path, ": cannot be created (", error.message(), ")");
}

}  // namespace rondo::data
