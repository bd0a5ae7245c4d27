#include "ptx/requests.h"

#include <algorithm>
#include <array>
#include <vector>

namespace rondo::ptx {
namespace {

struct Request {
  int lanes = 0;
  std::int64_t bytes = 0;
  std::vector<std::uint64_t> sectors;
};

/// Of the block that runs: for each warp its first accesses.
std::vector<std::array<Request, sampled_accesses>> warps;

std::map<std::string, Requests>& all() {
  static std::map<std::string, Requests> of_kernels;
  return of_kernels;
}

}  // namespace

const std::map<std::string, Requests>& requests() { return all(); }

void note_request(Thread& t, std::uint64_t address, unsigned bytes) {
  const std::uint32_t n = t.accesses++, warp = flat(t) / 32;
  if (n >= sampled_accesses) return;
  if (warp >= warps.size()) warps.resize(warp + 1);
  Request& request = warps[warp][n];
  ++request.lanes;
  request.bytes += bytes;
  const std::uint64_t sector = address / 32;  // accesses are aligned, so each is in one sector
  if (std::ranges::find(request.sectors, sector) == request.sectors.end())
    request.sectors.push_back(sector);
}

void finish_requests(const Kernel& kernel) {
  Requests& total = all()[kernel.name];
  for (auto& warp : warps) {
    for (Request& request : warp) {
      if (request.lanes == 32) {
        total.bytes += request.bytes;
        total.sectors += std::ssize(request.sectors);
      }
      request.lanes = 0;
      request.bytes = 0;
      request.sectors.clear();
    }
  }
}

}  // namespace rondo::ptx
