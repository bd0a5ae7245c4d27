// A user who links the hub, whose weights are .pth files.
#include <rondo/extras/hub/pretrained.h>
#include <rondo/io/weights.h>
#include <rondo/tensor/creation.h>

#include <cstdio>

int main() {
  rondo::io::save_weights("hub_alone.pth", {{"x", rondo::full({2, 3}, 7)}});
  const bool is_read = rondo::io::load_weights("hub_alone.pth").size() == 1;
  std::remove("hub_alone.pth");
  return is_read ? 0 : 1;
}
