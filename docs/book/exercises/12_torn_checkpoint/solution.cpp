// Writes another file, brings it to the disk, and only then gives it the name.
#include "exercise.h"

void save(Disk& disk, const std::string& name, std::string_view bytes) {
  const std::string temporary = name + ".tmp";
  disk.create(temporary);
  disk.append(temporary, bytes.substr(0, bytes.size() / 2));
  disk.append(temporary, bytes.substr(bytes.size() / 2));
  disk.sync(temporary);
  disk.rename(temporary, name);
  disk.sync_folder();
}
