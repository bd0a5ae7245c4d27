// A user who links the core without its extras: files of an unregistered format are refused with
// what to include.
#include <rondo/io/weights.h>
#include <rondo/tensor/creation.h>
#include <rondo/tensor/error.h>

#include <cstdio>
#include <fstream>
#include <string>

template <class F>
bool says(const std::string& part, F f) {
  try {
    f();
  } catch (const rondo::Error& e) {
    if (std::string(e.what()).find(part) != std::string::npos) return true;
    std::printf("not \"%s\": %s\n", part.c_str(), e.what());
  }
  return false;
}

int main() {
  std::ofstream("io_alone.pth") << "PK\x03\x04 and so on";
  const rondo::nn::StateDict state = {{"x", rondo::full({2, 3}, 7)}};
  const auto save = [&](const char* path) { rondo::io::save_weights(path, state); };
  save("io_alone.safetensors");
  const bool is_good = rondo::io::load_weights("io_alone.safetensors").size() == 1 &&
                       !rondo::io::is_safetensors_file("io_alone.pth") &&
                       says("torch_pickle.h", [] { rondo::io::load_weights("io_alone.pth"); }) &&
                       says("torch_pickle.h", [&] { save("io_alone.pt"); }) &&
                       says("io_alone.h5: the ending names the format; it must be .safetensors",
                            [&] { save("io_alone.h5"); });
  std::remove("io_alone.pth");
  std::remove("io_alone.safetensors");
  return is_good ? 0 : 1;
}
