// tokenizer.json of Hugging Face: reading it, and then a text through its steps and back. ICU's
// regular expressions may take 8 MB for their states.
#include "extras/text/tokenizer.h"

#include "fuzz/targets/fuzz.h"

using namespace rondo;

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return fuzz::hold_at_most(1024 * size + 32 * fuzz::mib, [&] {
    const auto tokenizer = text::Tokenizer::from_str(fuzz::text_of(data, size), "fuzz");
    try {
      tokenizer.decode(tokenizer.encode("The quick  [MASK] é 北 <0x41>\n"));
    } catch (const Error&) {  // an id of a template that no token has
    }
  });
}
