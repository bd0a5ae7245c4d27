#include "dist/launch/host.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>

namespace rondo::dist {
namespace {

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id;
}

}  // namespace

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string host() { return host_name() + " " + boot_id(); }

std::string network() {
  std::error_code error;  // without /proc the text is just the boot id
  return boot_id() + " " + std::filesystem::read_symlink("/proc/self/ns/net", error).string();
}

}  // namespace rondo::dist
