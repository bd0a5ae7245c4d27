#include "extras/doctor/network_findings.h"

#include <algorithm>
#include <cmath>

#include "tensor/error.h"

namespace rondo::doctor {
namespace {

constexpr double far_slower = 1.0 / 3;  // of the median of its kind, in bytes per second
constexpr double far_later = 5;         // times its latency, which varies more

/// Thresholds. Links inside a machine are compared with each other and with the speed of memory;
/// links between machines are compared with each other and with a network that is fast enough for
/// training.
struct Kind {
  const char* name;
  double least_gb_s, most_us;  // beyond these something is wrong, even if all links are equal
  double notable_us;           // a latency below it is never a finding
  const char *slow_why, *late_why, *where;
};

// Through memory a message takes about one microsecond, plus twice the time of a copy.
constexpr Kind inside{
    "inside a machine",
    1,
    50,
    10,
    "messages through memory carry several; these take another path (TCP), or the ranks share "
    "cores: let MPI choose (no --mca btl without vader or sm), bind each rank to its own core "
    "(--bind-to core) and look for other programs (top)",
    "through memory it takes about one; these messages take another path (TCP), or the ranks share "
    "a core: let MPI choose (no --mca btl without vader or sm), start no more ranks than "
    "there are cores, and look for other programs (top)",
    "affinities"};

// 10 Gbit/s Ethernet carries 1.2 GB/s; through one switch a message takes 10 to 100 us.
constexpr Kind between{
    "between machines",
    0.125,
    1000,
    200,
    "that is at most Gigabit Ethernet, which slows down training, or MPI uses the wrong network: "
    "name the fast one with mpirun --mca btl_tcp_if_include ADDRESS/BITS (ip addr lists "
    "them), or send less (--compress, --sync average)",
    "a network within a building takes 10 to 100: MPI may use the wrong one (wireless, a "
    "tunnel, a container's bridge): name the right one with mpirun --mca btl_tcp_if_include "
    "ADDRESS/BITS (ip addr lists them)",
    "network cards and cables"};

double rounded(double value) { return std::round(value * 100) / 100; }

/// "ranks 1 and 2 (b, c)".
std::string pair_of(const PairSpeed& link, const Facts& facts) {
  const Rank& a = facts.ranks[static_cast<std::size_t>(link.a)];
  const Rank& b = facts.ranks[static_cast<std::size_t>(link.b)];
  return concat("ranks ", link.a, " and ", link.b, " (", a.host,
                a.host == b.host ? "" : ", " + b.host, ")");
}

double median_of(const std::vector<const PairSpeed*>& links, double PairSpeed::*value) {
  std::vector<double> values;
  for (const PairSpeed* link : links) values.push_back(link->*value);
  return median(std::move(values));
}

/// Reports at most one finding: the slowest link if it is far slower than the others; otherwise the
/// slowest link represents all.
void check_rate(std::vector<Finding>& all, const Facts& facts, const Kind& kind,
                const std::vector<const PairSpeed*>& links) {
  const double middle = median_of(links, &PairSpeed::gb_s);
  const PairSpeed& worst = **std::ranges::min_element(links, {}, &PairSpeed::gb_s);
  const std::string what =
      concat("messages between ", pair_of(worst, facts), " carry ", rounded(worst.gb_s), " GB/s");
  if (worst.gb_s < far_slower * middle)
    all.push_back({Severity::slow, "link",
                   concat(what, " where the median ", kind.name, " is ", rounded(middle),
                          ": look at the ", kind.where, " of the two")});
  else if (worst.gb_s < kind.least_gb_s)
    all.push_back({Severity::slow, "rate", concat(what, ' ', kind.name, ": ", kind.slow_why)});
}

void check_latency(std::vector<Finding>& all, const Facts& facts, const Kind& kind,
                   const std::vector<const PairSpeed*>& links) {
  const double middle = median_of(links, &PairSpeed::latency_us);
  const PairSpeed& worst = **std::ranges::max_element(links, {}, &PairSpeed::latency_us);
  const std::string what = concat("a message between ", pair_of(worst, facts), " takes ",
                                  rounded(worst.latency_us), " us");
  if (worst.latency_us > far_later * middle && worst.latency_us > kind.notable_us)
    all.push_back({Severity::slow, "link_latency",
                   concat(what, " where the median ", kind.name, " is ", rounded(middle),
                          ": look at the ", kind.where, " of the two")});
  else if (worst.latency_us > kind.most_us)
    all.push_back({Severity::slow, "latency", concat(what, ' ', kind.name, ": ", kind.late_why)});
}

}  // namespace

void check_links(std::vector<Finding>& all, const Facts& facts) {
  for (const Kind* kind : {&inside, &between}) {
    std::vector<const PairSpeed*> links;
    for (const PairSpeed& link : facts.links) {
      const Rank& a = facts.ranks[static_cast<std::size_t>(link.a)];
      const Rank& b = facts.ranks[static_cast<std::size_t>(link.b)];
      // Containers of one machine communicate over a network inside it; check_memory gives the
      // advice.
      const bool is_inside = a.boot_id == b.boot_id;
      if (is_inside && (a.host != b.host || !a.shares_memory || !b.shares_memory)) continue;
      if (is_inside == (kind == &inside)) links.push_back(&link);
    }
    if (links.empty()) continue;
    check_rate(all, facts, *kind, links);
    check_latency(all, facts, *kind, links);
  }
}

void check_side_channel(std::vector<Finding>& all, const Facts& facts) {
  std::vector<int> deaf;
  const Rank* worst = nullptr;
  for (const Rank& rank : facts.ranks) {
    const int missing = rank.side_links_wanted - rank.side_links;
    if (missing <= 0) continue;
    deaf.push_back(rank.rank);
    if (worst == nullptr || missing > worst->side_links_wanted - worst->side_links) worst = &rank;
  }
  if (worst == nullptr) return;
  all.push_back(
      {Severity::note, "side_channel",
       concat(name_ranks(deaf), " cannot connect to all neighbours (rank ", worst->rank, " on ",
              worst->host, " has ", worst->side_links, " of ", worst->side_links_wanted,
              " connections), so when a rank dies, others may wait for the timeout instead of "
              "being informed: allow TCP connections to all ports between the machines (firewall, "
              "security group), and let ranks of one machine share its network")});
}

}  // namespace rondo::doctor
