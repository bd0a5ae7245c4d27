// Names of tensors from files, under rules that users write.
#include "io/key_rules.h"

#include "fuzz/targets/fuzz.h"
#include "tensor/creation.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const io::KeyRules rules{
      .rename = {{"^module\\.", ""}, {"(.*)\\.gamma$", "$1.weight"}, {"layer(\\d+)_", "layer$1."}},
      .ignore = {"(^|\\.)fc\\.", "num_batches_tracked$"}};
  static const Tensor x = zeros({1});
  return fuzz::hold_at_most(256 * size + 16 * fuzz::mib, [&] {
    io::apply(rules, {{fuzz::text_of(data, size), x}});
  });
}
