#pragma once
// Tuner: measures which all-reduce is the fastest.
//
// Which algorithm is fastest depends on the size, the number of ranks, and above all on the
// network, which is not known in advance. So the tuner tries all candidates, once for each size
// class (a power of two of bytes), when memory for such an all-reduce is allocated.
//
// The results are kept in a file, by size and by the number of ranks on each node. A job measures
// once, and later runs of it use the same algorithms. Their sums are then added in the same order,
// so a resumed run is bit-identical. If the file cannot be written, each run measures for itself,
// and results on three or more ranks may differ between runs. Delete the file if the network has
// changed.
//
// The file keeps all algorithms, sorted by time, since some do not support every dtype. A size
// whose line names only MPI's own all-reduce is measured again.

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
  /// `file` may be empty (nothing is kept) or not exist yet. Only rank 0 reads and writes it. It is
  /// not an error if the file cannot be written. Collective.
  Tuner(Communicator& comm, std::string file);
  /// Measures this size unless it is already known. Collective: all ranks pass the same size.
  /// Throws CommError.
  void learn(std::size_t bytes);
  /// The fastest algorithm for which is_good returns true, measured for this size class; empty
  /// without such a measurement.
  std::optional<AllReduce> fastest(
      std::size_t bytes,
      const std::function<bool(AllReduce)>& is_good = [](AllReduce) { return true; }) const;

  /// The file that dist::init uses: rondo/all_reduce.txt in $XDG_CACHE_HOME or ~/.cache; empty
  /// without a home directory.
  static std::string default_file();

 private:
  using Ranking = std::vector<AllReduce>;  // the fastest first
  std::vector<AllReduce> candidates(std::size_t bytes) const;
  Ranking measure(std::size_t bytes);
  void write() const;

  Communicator& comm_;
  std::string file_, world_;  // world_ is what the file calls this world: "mpi 2+2"
  std::map<std::size_t, Ranking> known_;
};

}  // namespace rondo::dist
