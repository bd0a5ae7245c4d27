// exported FOLDER: writes models as NAME.cpp and NAME.onnx, for bench/peers/exported.py.
// exported FOLDER NAME: the median time in us of rondo's own eval() of that model, on one thread if
// OMP_NUM_THREADS is 1.

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <vector>

#include "autograd/grad_mode.h"
#include "extras/export_cpp/export_cpp.h"
#include "extras/onnx/onnx.h"
#include "nn/models/mobilenet_v2.h"
#include "nn/models/models.h"
#include "nn/transformer.h"
#include "tensor/creation.h"

namespace {

using namespace rondo;

template <class M>
void use(M model, const Tensor& x, const std::filesystem::path& file, bool measures) {
  const NoGradGuard no_grad;
  model.eval();
  if (!measures) {
    io::export_cpp(model, x, file.string() + ".cpp");
    io::export_onnx(model, x, file.string() + ".onnx", {.dynamic_batch = false});
    return;
  }
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    model(x);
    const std::chrono::duration<double, std::micro> time = std::chrono::steady_clock::now() - begin;
    times.push_back(time.count());
  }
  std::ranges::nth_element(times, times.begin() + 100);
  std::cout << times[100] << "\n";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: exported FOLDER [NAME]\n";
    return 1;
  }
  const std::filesystem::path folder = argv[1];
  const std::string name = argc > 2 ? argv[2] : "";
  const auto model = [&](const std::string& each, const auto& make, const Dims& input) {
    if (name.empty() || name == each) use(make(), randn(input), folder / each, !name.empty());
  };
  model("mlp", [] { return nn::make_model("mlp"); }, {1, 1, 28, 28});
  model("resnet20", [] { return nn::make_model("resnet20"); }, {1, 3, 32, 32});
  model("mobilenet_v2", [] { return nn::MobileNetV2(); }, {1, 3, 224, 224});
  model("transformer",
        [] {
          return nn::TransformerEncoder(
              nn::TransformerEncoderLayer(128, 4, {.dim_feedforward = 512, .batch_first = true}),
              2);
        },
        {1, 64, 128});
}
