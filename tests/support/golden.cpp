#include "support/golden.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "tensor/creation.h"

namespace rondo::test {
namespace {

std::ifstream open(const std::string& file) {
  const std::string path = source_file(std::string(RONDO_GOLDEN_DIR) + "/" + file);
  std::ifstream in(path);
  require<IoError>(in.is_open(), "golden file ", path, " cannot be read");
  return in;
}

Dims parse_sizes(const std::string& text) {
  Dims sizes;
  if (text == "-") return sizes;
  std::istringstream in(text);
  for (std::string size; std::getline(in, size, ',');) sizes.push_back(std::stoll(size));
  return sizes;
}

Tensor parse_tensor(DType dtype, const Dims& sizes, std::istream& in) {
  return visit_dtype(dtype, [&]<class T>() {
    Tensor x = empty(sizes, {.dtype = dtype});
    for (std::int64_t i = 0; i < x.numel(); ++i) {
      std::string word;
      require<IoError>(static_cast<bool>(in >> word), "a golden of ", sizes, " has only ", i,
                       " values");
      T& value = x.data_ptr<T>()[i];
      if constexpr (is_floating(dtype_of<T>) && sizeof(T) == 2) {
        value = T(std::strtof(word.c_str(), nullptr));
      } else if constexpr (is_floating(dtype_of<T>)) {
        value = static_cast<T>(std::strtod(word.c_str(), nullptr));
      } else {
        value = static_cast<T>(std::stoll(word));
      }
    }
    return x;
  });
}

}  // namespace

std::string source_file(const std::string& path) {
  const std::size_t tests = path.rfind("/tests/");
  if (std::filesystem::exists(path) || tests == std::string::npos) return path;
  if (const char* packed = std::getenv("RONDO_TEST_FILES"))
    return (std::filesystem::path(packed) / path.substr(tests + 1)).string();
  return path;
}

Golden::Golden(const std::string& file) : file_(file) {
  std::ifstream in = open(file);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, dtype, sizes;
    words >> name >> dtype >> sizes;
    tensors_[name] = parse_tensor(parse_dtype(dtype), parse_sizes(sizes), words);
  }
}

Tensor Golden::operator[](const std::string& name) const {
  const auto found = tensors_.find(name);
  require<IoError>(found != tensors_.end(), "tests/golden/", file_, " has no tensor ", name);
  return found->second.alias();
}

const Golden& kernel_golden() {
  static const Golden file("kernels.txt");
  return file;
}

std::map<std::string, std::string> golden_texts(const std::string& file) {
  std::ifstream in = open(file);
  std::map<std::string, std::string> texts;
  std::string name;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("=== ", 0) == 0) {
      name = line.substr(4);
      texts[name];
    } else {
      std::string& text = texts[name];
      text += (text.empty() ? "" : "\n") + line;
    }
  }
  return texts;
}

std::string golden_bytes(const std::string& file, const std::string& name) {
  const std::string digits = golden_texts(file).at(name);
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

}  // namespace rondo::test
