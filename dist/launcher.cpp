#include "dist/launcher.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

struct Variables {
  const char *name, *rank, *size;
};
constexpr Variables known[] = {
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    {"a PMI launcher", "PMI_RANK", "PMI_SIZE"},  // MPICH, Intel MPI, Cray
};

int number(const char* variable, const char* text) {
  require<CommError>(text != nullptr, "the launcher's environment is incomplete: ", variable,
                     " is not set");
  int value = -1;
  std::string_view view(text);
  auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  require<CommError>(error == std::errc() && end == view.data() + view.size() && value >= 0,
                     "the launcher's environment makes no sense: ", variable, " is \"", text, "\"");
  return value;
}

}  // namespace

std::optional<Launcher> read_launcher(const Getenv& getenv) {
  for (const Variables& v : known) {
    const char *rank = getenv(v.rank), *size = getenv(v.size);
    if (!rank && !size) continue;
    Launcher launcher{concat(v.name, " (", v.size, ")"), number(v.rank, rank),
                      number(v.size, size)};
    require<CommError>(launcher.rank < launcher.size,
                       "the launcher's environment makes no sense: ", v.rank, " is ", rank, " and ",
                       v.size, " is ", size);
    return launcher;
  }
  return std::nullopt;
}

std::optional<Launcher> read_launcher() {
  return read_launcher([](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace rondo::dist
