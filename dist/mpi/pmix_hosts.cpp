#include "dist/mpi/pmix_hosts.h"

#include <cstdlib>

#ifdef RONDO_HAS_PMIX
#include <dlfcn.h>
#include <pmix.h>

#include <cstring>
#include <type_traits>

#include "dist/mpi/patience.h"
#endif

namespace rondo::dist {

#ifdef RONDO_HAS_PMIX

constexpr auto time_to_connect = std::chrono::minutes(1);

// The library is loaded when a launcher has a server: the same that Open MPI loads for itself,
// where it was built on PMIx of the distribution, and so the same connection.
struct PmixHosts::Client {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  pmix_proc_t self = {};

  bool load() {
    void* library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);  // for ever, as MPI may use it
    if (library == nullptr) return false;
    const auto find = [&](const char* symbol, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
      return function != nullptr;
    };
    return find("PMIx_Init", init) && find("PMIx_Get", get) && find("PMIx_Finalize", finalize);
  }
  std::string name(pmix_rank_t rank) const {
    pmix_proc_t whom = self;
    whom.rank = rank;
    // Of what is here: the server is not asked, let alone other machines.
    pmix_info_t here = {};
    std::strncpy(here.key, PMIX_OPTIONAL, sizeof here.key - 1);
    here.value.type = PMIX_BOOL;
    here.value.data.flag = true;
    pmix_value_t* value = nullptr;
    if (get(&whom, PMIX_HOSTNAME, &here, 1, &value) != PMIX_SUCCESS || value == nullptr) return "";
    std::string host;
    if (value->type == PMIX_STRING && value->data.string != nullptr) {
      host = value->data.string;
      std::free(value->data.string);
    }
    std::free(value);
    return host;
  }
};

PmixHosts::PmixHosts() {
  if (std::getenv("PMIX_NAMESPACE") == nullptr || std::getenv("PMIX_RANK") == nullptr) return;
  const Patience guard("PMIx_Init", time_to_connect, "the launcher does not answer");
  auto* client = new Client;
  if (client->load() && client->init(&client->self, nullptr, 0) == PMIX_SUCCESS)
    client_ = client;
  else
    delete client;
}

PmixHosts::~PmixHosts() {
  if (client_ != nullptr) client_->finalize(nullptr, 0);  // MPI's own beginning is counted, too
  delete client_;
}

std::vector<std::string> PmixHosts::names(int world_size) const {
  std::vector<std::string> all(static_cast<std::size_t>(world_size));
  if (client_ == nullptr) return all;
  for (std::size_t r = 0; r < all.size(); ++r) all[r] = client_->name(static_cast<pmix_rank_t>(r));
  return all;
}

#else

struct PmixHosts::Client {};
PmixHosts::PmixHosts() = default;
PmixHosts::~PmixHosts() = default;
std::vector<std::string> PmixHosts::names(int world_size) const {
  return std::vector<std::string>(static_cast<std::size_t>(world_size));
}

#endif

}  // namespace rondo::dist
