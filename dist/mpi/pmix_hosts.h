#pragma once
// PmixHosts: on which machine each rank is, before MPI has started: what the launcher's PMIx server
// told this process's side of it about the job (pmix.org, "job-level information"). Nothing is sent
// to other ranks and nothing waits for them.
//
// Why not more of PMIx, which could carry addresses, too: one rank's PMIx_Get of what another puts
// waits two seconds at most under Open MPI 4.1, for a rank that comes later, and once that has
// failed, the MPI_Init of both hangs (seen with PMIx 4.2.2).

#include <string>
#include <vector>

namespace rondo::dist {

/// To be kept until MPI_Init has returned: then MPI is what ends the connection to the server.
class PmixHosts {
 public:
  /// Connects to the server. Without one, or where rondo was built without pmix.h or libpmix.so.2
  /// is not there, all names are empty.
  PmixHosts();
  ~PmixHosts();
  PmixHosts(const PmixHosts&) = delete;
  PmixHosts& operator=(const PmixHosts&) = delete;

  /// By rank; what is not known is empty.
  std::vector<std::string> names(int world_size) const;

 private:
  struct Client;
  Client* client_ = nullptr;
};

}  // namespace rondo::dist
