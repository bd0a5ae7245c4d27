// A user who needs only the lowest layer.
#include <rondo/tensor/creation.h>
#include <rondo/tensor/version.h>

static_assert(RONDO_VERSION >= 100);

int main() { return rondo::full({2, 3}, 7).to_vector<int>().at(5) == 7 ? 0 : 1; }
