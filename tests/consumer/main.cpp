// A user's project: finds the installed rondo and trains one step with it.
#include <rondo/nn/conv2d.h>
#include <rondo/rondo.h>

namespace rd = rondo;
namespace nn = rondo::nn;
namespace optim = rondo::optim;
using rondo::Tensor;

int main() {
  nn::Conv2d conv(3, 8, 3, {.padding = 1});
  optim::SGD sgd(conv.parameters(), {.lr = 0.1});
  Tensor x = rd::randn({2, 3, 8, 8});
  double before = conv(x).pow(2).mean().item();
  conv(x).pow(2).mean().backward();
  sgd.step();
  try {  // links the image decoders and their libraries
    rd::data::decode_image({}, "nothing");
    return 1;
  } catch (const rd::Error&) {
  }
  return conv(x).pow(2).mean().item() < before ? 0 : 1;
}
