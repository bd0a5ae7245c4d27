#pragma once
// Tuner: which all-reduce is the fastest, found out by trying.
//
// Which algorithm wins depends on the size, the number of ranks, and above all on the network, of
// which nobody knows anything beforehand. So all that may win are tried, once for each size class
// (a power of two of bytes), when memory for such an all-reduce is allocated. What was measured is
// kept in a file, by the number of ranks on each node and the size, so that a job measures once and
// its next runs take the same ways: sums are then added up in the same order, and a run that is
// resumed ends at the same bits. Where the file cannot be written, each run measures for itself,
// and on three ranks or more may end at others. A network that has changed is a reason to delete
// the file. All ways are kept, in the order of their times: not every dtype can go every way. A
// line that names MPI's own alone is measured anew.

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dist/collectives/all_reduce.h"

namespace rondo::dist {

class Communicator;

class Tuner {
 public:
  /// `file` may be empty (nothing is kept) or not exist yet; only rank 0 reads and writes it. One
  /// that cannot be written is not an error. Collective.
  Tuner(Communicator& comm, std::string file);
  /// Measures, unless it is known. Collective: all ranks name the same size. Throws CommError.
  void learn(std::size_t bytes);
  /// Of sizes like this one the fastest way that is good for what is meant; nothing where none was
  /// measured.
  std::optional<AllReduce> fastest(
      std::size_t bytes,
      const std::function<bool(AllReduce)>& is_good = [](AllReduce) { return true; }) const;

  /// The file that dist::init uses: rondo/all_reduce.txt in $XDG_CACHE_HOME or ~/.cache; empty
  /// where there is no home.
  static std::string default_file();

 private:
  using Ranking = std::vector<AllReduce>;  // from the fastest on
  std::vector<AllReduce> candidates(std::size_t bytes) const;
  Ranking measure(std::size_t bytes);
  void write() const;

  Communicator& comm_;
  std::string file_, world_;  // what the file calls this world: "mpi 2+2"
  std::map<std::size_t, Ranking> known_;
};

}  // namespace rondo::dist
