#include "data/files.h"

#include <fstream>

namespace rondo::data {

std::vector<std::string> read_class_names(const std::filesystem::path& file,
                                          const std::vector<std::string>& fallback) {
  if (!std::filesystem::exists(file)) return fallback;
  size_of_file(file);  // a pipe might never end
  std::ifstream in(file);
  require<IoError>(in.good(), file.string(), ": cannot be read");
  std::vector<std::string> names;
  for (std::string line; std::getline(in, line);) {
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  require<IoError>(names.size() == fallback.size(), file.string(), ": ", names.size(),
                   " names of classes, but there are ", fallback.size(), " classes");
  return names;
}

}  // namespace rondo::data
