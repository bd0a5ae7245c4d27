// One file over libcurl: what is in NAME.part is kept, the rest is asked for, and NAME appears only
// when its checksum is the right one.

#include <curl/curl.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>

#include "data/download.h"
#include "data/files.h"

namespace rondo::data {
namespace {

namespace fs = std::filesystem;

struct TransferCloser {
  void operator()(CURL* curl) const { curl_easy_cleanup(curl); }
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using Output = std::unique_ptr<std::FILE, TransferCloser>;

/// One attempt: what the callbacks of curl see of it.
struct Transfer {
  const RemoteFile& remote;
  const DownloadOptions& options;
  std::FILE* out;
  std::int64_t before;  // bytes that were there
  std::int64_t received = 0;
  bool disk_full = false;
  std::exception_ptr thrown;  // by the caller's progress, carried past curl's C frames
};

std::size_t write_body(char* data, std::size_t, std::size_t size, void* context) {
  auto& transfer = *static_cast<Transfer*>(context);
  const std::size_t written = std::fwrite(data, 1, size, transfer.out);
  transfer.received += static_cast<std::int64_t>(written);
  transfer.disk_full = written != size;
  return written;
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

std::int64_t size_or_zero(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : static_cast<std::int64_t>(size);
}

void remove_file(const fs::path& file) {
  std::error_code error;
  fs::remove(file, error);
  require<IoError>(!error, file.string(), ": cannot be removed (", error.message(), ")");
}

struct Outcome {
  CURLcode code;
  std::string reason;
  long http_status;
  std::int64_t before, received;
};

/// Appends what the server has beyond the bytes of `part`.
Outcome attempt(const RemoteFile& remote, const fs::path& part, const DownloadOptions& options) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  Outcome outcome{CURLE_OK, "", 0, size_or_zero(part), 0};
  const Output out(std::fopen(part.c_str(), "ab"));
  require<IoError>(out != nullptr, part.string(), ": cannot be written (", std::strerror(errno),
                   ")");
  const std::unique_ptr<CURL, TransferCloser> curl(curl_easy_init());
  require(curl != nullptr, "libcurl cannot be initialised");
  Transfer transfer{.remote = remote,
                    .options = options,
                    .out = out.get(),
                    .before = outcome.before,
                    .thrown = nullptr};
  char reason[CURL_ERROR_SIZE] = "";
  auto set = [&](CURLoption option, auto value) { curl_easy_setopt(curl.get(), option, value); };
  set(CURLOPT_URL, remote.url.c_str());
  set(CURLOPT_ERRORBUFFER, reason);
  set(CURLOPT_NOSIGNAL, 1L);  // other threads are at work
  set(CURLOPT_FOLLOWLOCATION, 1L);
  set(CURLOPT_MAXREDIRS, 5L);
  set(CURLOPT_FAILONERROR, 1L);
  set(CURLOPT_CONNECTTIMEOUT, static_cast<long>(options.connect_timeout));
  set(CURLOPT_LOW_SPEED_LIMIT, 1L);  // a line that is silent for half a minute is dead
  set(CURLOPT_LOW_SPEED_TIME, 30L);
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
  outcome.received = transfer.received;
  if (transfer.thrown) std::rethrow_exception(transfer.thrown);
  require<IoError>(!transfer.disk_full && std::fflush(out.get()) == 0, part.string(),
                   ": cannot be written (disk full?)");
  return outcome;
}

/// A server without ranges, or a .part that is as long as the whole or longer: begin anew.
bool wants_fresh_start(const Outcome& outcome) {
  return outcome.before > 0 &&
         (outcome.code == CURLE_RANGE_ERROR || outcome.code == CURLE_BAD_DOWNLOAD_RESUME ||
          outcome.http_status == 416);
}

/// Fetches until the server says that this was all.
void fetch_part(const RemoteFile& remote, const fs::path& part, const DownloadOptions& options) {
  for (int tries = 1;; ++tries) {
    const Outcome outcome = attempt(remote, part, options);
    if (outcome.code == CURLE_OK) return;
    if (wants_fresh_start(outcome)) {
      remove_file(part);
      continue;
    }
    // A line that broke after it brought something is worth another try.
    if (outcome.received > 0 && outcome.http_status < 400 && tries < 5) continue;
    const std::int64_t have = size_or_zero(part);
    if (have == 0) remove_file(part);
    throw IoError(concat(remote.url, ": cannot be downloaded (", outcome.reason, ")",
                         have > 0
                             ? concat("; the ", have, " bytes so far are kept in ", part.string())
                             : std::string{}));
  }
}

}  // namespace

void download(const RemoteFile& file, const fs::path& path, const DownloadOptions& options) {
  std::error_code error;
  if (fs::exists(path, error) && checksum_of(path, file.checksum) == file.checksum) return;
  const fs::path part = path.string() + ".part";
  const bool resumed = size_or_zero(part) > 0;
  std::string found = resumed ? checksum_of(part, file.checksum) : "";
  if (found != file.checksum) {
    fetch_part(file, part, options);
    found = checksum_of(part, file.checksum);
  }
  if (found != file.checksum && resumed) {  // perhaps the beginning was of another file
    remove_file(part);
    fetch_part(file, part, options);
    found = checksum_of(part, file.checksum);
  }
  if (found != file.checksum) {
    remove_file(part);
    throw IoError(concat(file.url, ": checksum ", found, " instead of ", file.checksum,
                         "; the download was thrown away"));
  }
  fs::rename(part, path, error);
  require<IoError>(!error, path.string(), ": cannot be created (", error.message(), ")");
}

}  // namespace rondo::data
