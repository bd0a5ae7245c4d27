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
  rondo::io::save_weights("io_alone.safetensors", state);
  const bool is_good = rondo::io::load_weights("io_alone.safetensors").size() == 1 &&
                       says("torch_pickle.h", [] { rondo::io::load_weights("io_alone.pth"); }) &&
                       says("io_alone.pt: the ending names the format; it must be .safetensors",
                            [&] { rondo::io::save_weights("io_alone.pt", state); });
  std::remove("io_alone.pth");
  std::remove("io_alone.safetensors");
  return is_good ? 0 : 1;
}
