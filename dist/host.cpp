#include "dist/host.h"

#include <unistd.h>

#include <fstream>

namespace rondo::dist {

std::string host() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot_id;
  std::getline(file, boot_id);
  return std::string(name) + " " + boot_id;
}

}  // namespace rondo::dist
