#include "dist/host.h"

#include <unistd.h>

#include <fstream>

namespace rondo::dist {

std::string host_name() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  return name;
}

std::string host() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::getline(file, boot_id);
  return host_name() + " " + boot_id;
}

}  // namespace rondo::dist
