#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "extras/doctor/findings.h"
#include "extras/doctor/print.h"

namespace rondo::doctor {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A rank of a machine of 8 cores with nothing wrong.
Rank healthy(int number, const std::string& host = "a") {
  Rank rank;
  rank.rank = number;
  rank.rondo = "0.1.0";
  rank.onednn = "3.13.0";
  rank.host = host;
  rank.boot_id = "boot of " + host;
  rank.cpu.isa = "avx512";
  rank.cpu.has = "AVX2, AVX-512";
  rank.cpu.mask = {0, 1, 2, 3, 4, 5, 6, 7};
  rank.cpu.cores = rank.cpu.mask;
  rank.cpu.usable_cores = 8;
  rank.threads = {.wanted = "", .share = 4, .used = 4};
  rank.memory.total = rank.memory.available = std::int64_t{64} << 30;
  rank.memory.shm_total = rank.memory.shm_free = std::int64_t{32} << 30;
  rank.gpus.why_none = "there is no NVIDIA driver";
  rank.gpus.nccl_error = "no NCCL";
  rank.mpi = "Open MPI v4.1.4";
  rank.thread_level = "serialized";
  rank.launcher = "Open MPI (OMPI_COMM_WORLD_SIZE)";
  rank.shares_memory = rank.reads_peers = true;
  rank.gflops = 100;
  rank.copy_gb_s = 10;
  return rank;
}

Facts two_ranks() { return {.ranks = {healthy(0), healthy(1)}, .backend = "mpi"}; }
Facts two_hosts() { return {.ranks = {healthy(0, "a"), healthy(1, "b")}, .backend = "mpi"}; }

void bind(Rank& rank, std::vector<int> cpus) { rank.cpu.mask = rank.cpu.cores = std::move(cpus); }

/// The finding as one line: "slow affinity: the …"; fails unless there is exactly one.
std::string only(const Facts& facts) {
  const auto findings = find(facts);
  EXPECT_EQ(findings.size(), 1u) << describe_findings(findings);
  if (findings.empty()) return "";
  return std::string(name_of(findings[0].severity)) + " " + findings[0].name + ": " +
         findings[0].text;
}

TEST(Doctor, FindsNothingWhereNothingIs) {
  EXPECT_THAT(find(two_ranks()), IsEmpty());
  EXPECT_THAT(find(two_hosts()), IsEmpty());
  EXPECT_THAT(find({}), IsEmpty());
  EXPECT_THAT(describe_findings({}), HasSubstr("nothing found"));
}

TEST(Doctor, RanksThatDoNotFindEachOther) {
  Facts facts{.ranks = {healthy(0)}, .init_error = "Open MPI started 4 ranks, but MPI counts 1"};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("broken launcher"), HasSubstr("MPI counts 1")));
}

TEST(Doctor, LauncherThatPromisesMoreRanks) {
  Facts facts{.ranks = {healthy(0)}};
  facts.ranks[0].threads = {.wanted = "", .share = 8, .used = 8};
  facts.ranks[0].launcher_size = 4;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("broken launcher"), HasSubstr("started 4 ranks")));
}

TEST(Doctor, OtherVersions) {
  Facts facts = two_hosts();
  facts.ranks[1].mpi = "Open MPI v5.0.0";
  EXPECT_THAT(only(facts), AllOf(HasSubstr("broken versions"), HasSubstr("rank 1 (b)")));
  facts = two_hosts();
  facts.ranks[1].rondo = "0.2.0";
  EXPECT_THAT(only(facts), HasSubstr("broken versions"));
  facts = two_hosts();
  facts.ranks[1].onednn = "3.1.0";
  EXPECT_THAT(only(facts), HasSubstr("note versions"));
}

TEST(Doctor, KnowsWhichOneDnnIsWrong) {
  Facts facts = two_hosts();
  for (Rank& rank : facts.ranks) rank.onednn = "3.7.2";
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note onednn"), HasSubstr("oneDNN 3.7.2"),
                                 HasSubstr("one row or column with gaps")));
  for (Rank& rank : facts.ranks) rank.cpu.has = "AVX2";
  EXPECT_THAT(find(facts), IsEmpty());
  for (Rank& rank : facts.ranks) rank.cpu.has = "AVX2, AVX-512", rank.onednn = "2.6.3";
  EXPECT_THAT(only(facts), HasSubstr("with AVX-512, oneDNN 2.6.3"));
  for (Rank& rank : facts.ranks) rank.cpu.has = "AVX2";
  EXPECT_THAT(only(facts), HasSubstr("with AVX2, oneDNN 2.6.3 gives wrong results for some int8"));
  for (Rank& rank : facts.ranks) rank.onednn = "3.12.1";
  EXPECT_THAT(only(facts),
              HasSubstr("with AVX2, oneDNN 3.12.1 gives wrong results for some batch"));
}

TEST(Doctor, MpiForOneThread) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) rank.thread_level = "funneled";
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow thread_level"), HasSubstr("ranks 0-1")));
}

TEST(Doctor, ASettingThatRondoRefuses) {
  Facts facts = two_hosts();
  facts.ranks[1].environment_error = "RONDO_CONV: unknown convolution algorithm \"fast\"";
  EXPECT_THAT(only(facts),
              AllOf(HasSubstr("broken environment"), HasSubstr("rank 1"), HasSubstr("\"fast\"")));
}

TEST(Doctor, InstructionSets) {
  Facts facts = two_hosts();
  facts.ranks[1].cpu.isa = "avx2";
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note isa"), HasSubstr("RONDO_ISA"), HasSubstr("avx2")));
}

TEST(Doctor, AffinitiesThatOverlap) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) bind(rank, {3}), rank.threads.used = rank.threads.share = 1;
  facts.ranks[0].cpu.usable_cores = facts.ranks[1].cpu.usable_cores = 8;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow affinity"), HasSubstr("ranks 0-1"),
                                 HasSubstr("1 core"), HasSubstr("--bind-to none")));
  facts = two_ranks();
  bind(facts.ranks[0], {0, 1, 2, 3, 4});
  bind(facts.ranks[1], {4, 5, 6, 7});
  EXPECT_THAT(only(facts), HasSubstr("slow affinity"));
}

TEST(Doctor, AffinitiesThatDoNotOverlapOrAreAll) {
  Facts facts = two_ranks();  // all CPUs for all ranks, as with --bind-to none
  EXPECT_THAT(find(facts), IsEmpty());
  bind(facts.ranks[0], {0, 1, 2, 3});
  bind(facts.ranks[1], {4, 5, 6, 7});
  EXPECT_THAT(find(facts), IsEmpty());
}

TEST(Doctor, MasksOfTwoMachinesDoNotOverlap) {
  Facts facts = two_hosts();
  for (Rank& rank : facts.ranks) {
    bind(rank, {0});
    rank.cpu.usable_cores = 1;
    rank.threads.used = rank.threads.share = 1;
  }
  EXPECT_THAT(find(facts), IsEmpty());
}

TEST(Doctor, CoresThatNobodyUses) {
  Facts facts = two_ranks();
  for (int r : {0, 1}) {
    bind(facts.ranks[static_cast<std::size_t>(r)], {r});
    facts.ranks[static_cast<std::size_t>(r)].threads = {.wanted = "", .share = 1, .used = 1};
  }
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow idle_cores"), HasSubstr("2 cores of 8")));
  for (Rank& rank : facts.ranks) rank.cpu.quota = 2;  // the quota does not allow the others
  EXPECT_THAT(find(facts), IsEmpty());
}

TEST(Doctor, MoreRanksThanCores) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) {
    bind(rank, {0});
    rank.cpu.usable_cores = 1;
    rank.threads.used = rank.threads.share = 1;
  }
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow ranks"), HasSubstr("2 ranks on 1 core:")));
  facts.ranks[1].gflops = 40;  // the ranks take turns
  only(facts);
}

TEST(Doctor, MoreThreadsThanCores) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) rank.threads = {.wanted = "8", .share = 4, .used = 8};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow threads"), HasSubstr("16 threads on 8 cores"),
                                 HasSubstr("unset OMP_NUM_THREADS, or set it to 4")));
  for (Rank& rank : facts.ranks) rank.threads.wanted = "";
  EXPECT_THAT(only(facts), HasSubstr(": set OMP_NUM_THREADS to 4"));
  for (Rank& rank : facts.ranks) rank.threads = {.wanted = "4", .share = 2, .used = 4};
  for (Rank& rank : facts.ranks) rank.cpu.quota = 4;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow threads"), HasSubstr("allows 4 CPUs")));
}

TEST(Doctor, QuotaBelowTheRanks) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) {
    rank.cpu.quota = 1.5;
    rank.threads.used = rank.threads.share = 1;
  }
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow quota"), HasSubstr("1.5 CPUs for 2 ranks")));
}

TEST(Doctor, OddNumbersOfThreads) {
  for (const char* wanted : {"four", "0", "-1", "4x", " "}) {
    Facts facts = two_ranks();
    for (Rank& rank : facts.ranks) rank.threads.wanted = wanted;
    EXPECT_THAT(only(facts), AllOf(HasSubstr("slow omp"), HasSubstr(wanted))) << wanted;
  }
  for (const char* wanted : {"4", "4,2", " 4"}) {
    Facts facts = two_ranks();
    for (Rank& rank : facts.ranks) rank.threads.wanted = wanted;
    EXPECT_THAT(find(facts), IsEmpty()) << wanted;
  }
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) rank.threads = {.wanted = "1", .share = 4, .used = 1};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow omp"), HasSubstr("share is 4 cores")));
  facts = two_ranks();
  facts.ranks[1].threads.wanted = "4";
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note omp"), HasSubstr("4, but rank 0 (a) has unset")));
  facts = two_ranks();
  for (Rank& rank : facts.ranks) rank.threads.wanted = "100000";
  EXPECT_THAT(only(facts), AllOf(HasSubstr("broken omp"), HasSubstr("4096")));
}

TEST(Doctor, NoSharedMemoryOnOneMachine) {
  Facts facts = two_ranks();
  facts.ranks[0].shares_memory = facts.ranks[1].shares_memory = false;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow shared_memory"), HasSubstr("ranks 0-1")));
  facts = two_ranks();  // two containers on one kernel: each rank is alone in its container
  facts.ranks[1].host = "b";
  facts.links = {{0, 1, 60, 0.1}};  // as expected then
  EXPECT_THAT(only(facts), HasSubstr("slow shared_memory"));
}

TEST(Doctor, MemoryThatCannotBeRead) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) rank.reads_peers = false, rank.memory.ptrace_scope = 1;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note peer_memory"), HasSubstr("ptrace_scope is 1")));
}

TEST(Doctor, SmallSharedMemory) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) rank.memory.shm_total = rank.memory.shm_free = 64 << 20;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note shm"), HasSubstr("64 of 64 MiB")));
}

TEST(Doctor, LittleMemoryAndLimits) {
  Facts facts = two_ranks();
  facts.ranks[0].memory.available = 100 << 20;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note memory"), HasSubstr("100 MiB of 65536 MiB")));
  facts = two_ranks();
  facts.ranks[0].memory.locked_limit = 64 << 10;
  EXPECT_THAT(find(facts), IsEmpty());
  facts.ranks[0].infiniband = true;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow memlock"), HasSubstr("64 KiB")));
  facts = two_ranks();
  facts.ranks[0].memory.files_limit = 100;
  EXPECT_THAT(only(facts), HasSubstr("note files"));
}

TEST(Doctor, Gpus) {
  Facts facts = two_ranks();
  for (Rank& rank : facts.ranks) rank.gpus.cards = 2;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note gpu"), HasSubstr("2 NVIDIA cards"),
                                 HasSubstr("there is no NVIDIA driver")));
  for (Rank& rank : facts.ranks) rank.gpus = {.devices = {"H200", "H200"}, .nccl_error = "no NCCL"};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow nccl"), HasSubstr("no CUDA support either")));
  for (Rank& rank : facts.ranks) rank.gpus = {.devices = {"H200", "H200"}, .nccl = "2.28.3"};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note cuda_aware"), HasSubstr("--all-reduce mpi")));
  for (Rank& rank : facts.ranks) rank.cuda_aware = true;
  EXPECT_THAT(find(facts), IsEmpty());
  for (Rank& rank : facts.ranks) rank.gpus.devices = {"H200"};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("note gpu"), HasSubstr("1 GPU for 2 ranks")));
}

TEST(Doctor, OneSlowRank) {
  Facts facts = two_hosts();
  facts.ranks[1].gflops = 40;
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow slow_rank"), HasSubstr("rank 1 on b"),
                                 HasSubstr("40 GFLOP/s"), HasSubstr("median is 100")));
  facts.ranks[1].gflops = 80;
  EXPECT_THAT(find(facts), IsEmpty());
  facts.ranks[1].copy_gb_s = 4;
  EXPECT_THAT(only(facts), HasSubstr("slow slow_memory"));
}

TEST(Doctor, OneSlowLink) {
  Facts facts = two_hosts();
  facts.ranks.push_back(healthy(2, "c"));
  facts.links = {{0, 1, 20, 1.2}, {0, 2, 20, 1.2}, {1, 2, 20, 0.1}};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow link"), HasSubstr("ranks 1 and 2"),
                                 HasSubstr("between machines")));
  // A network is slower than memory, which is not a finding.
  facts.ranks = {healthy(0, "a"), healthy(1, "a"), healthy(2, "b")};
  facts.links = {{0, 1, 1, 10}, {0, 2, 20, 1.2}, {1, 2, 20, 1.2}};
  EXPECT_THAT(find(facts), IsEmpty());
}

// Two ranks have one link, which is also the median.
TEST(Doctor, LinksThatAreAllSlow) {
  Facts facts = two_ranks();
  facts.links = {{0, 1, 1, 0.9}};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow rate"), HasSubstr("ranks 0 and 1 (a) carry 0.9"),
                                 HasSubstr("inside a machine"), HasSubstr("vader or sm")));
  facts.links = {{0, 1, 60, 8}};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow latency"), HasSubstr("takes 60 us"),
                                 HasSubstr("the ranks share a core")));
  facts.links = {{0, 1, 40, 1.1}};
  EXPECT_THAT(find(facts), IsEmpty());
  facts = two_hosts();  // Gigabit Ethernet
  facts.links = {{0, 1, 45, 0.115}};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow rate"), HasSubstr("ranks 0 and 1 (a, b)"),
                                 HasSubstr("between machines"), HasSubstr("Gigabit Ethernet"),
                                 HasSubstr("btl_tcp_if_include")));
  facts.links = {{0, 1, 1500, 1.2}};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow latency"), HasSubstr("1500 us between machines"),
                                 HasSubstr("btl_tcp_if_include")));
  facts.links = {{0, 1, 90, 0.5}};
  EXPECT_THAT(find(facts), IsEmpty());
  // More ranks than cores take turns and are slow; this is reported once.
  facts = two_ranks();
  for (Rank& rank : facts.ranks) {
    bind(rank, {0});
    rank.cpu.usable_cores = 1;
    rank.threads.used = rank.threads.share = 1;
  }
  facts.links = {{0, 1, 4000, 0.2}};
  EXPECT_THAT(only(facts), HasSubstr("slow ranks"));
}

TEST(Doctor, OneLateLink) {
  Facts facts = two_hosts();
  facts.ranks.push_back(healthy(2, "c"));
  facts.links = {{0, 1, 40, 1.2}, {0, 2, 40, 1.2}, {1, 2, 300, 1.2}};
  EXPECT_THAT(only(facts), AllOf(HasSubstr("slow link_latency"), HasSubstr("ranks 1 and 2 (b, c)"),
                                 HasSubstr("median between machines is 40")));
  facts.links[2].latency_us = 190;  // within normal variation
  EXPECT_THAT(find(facts), IsEmpty());
  facts.links[0].latency_us = facts.links[1].latency_us = 10;
  EXPECT_THAT(find(facts), IsEmpty());
}

TEST(Doctor, RanksThatWouldNotHearOfADeath) {
  Facts facts = two_hosts();
  facts.ranks.push_back(healthy(2, "c"));
  for (Rank& rank : facts.ranks) rank.side_links = rank.side_links_wanted = 2;
  EXPECT_THAT(find(facts), IsEmpty());
  EXPECT_THAT(describe_measurements(facts), HasSubstr("2 of 2 connections"));
  facts.ranks[1].side_links = 1;
  facts.ranks[2].side_links = 0;
  EXPECT_THAT(only(facts),
              AllOf(HasSubstr("note side_channel"), HasSubstr("ranks 1-2 cannot"),
                    HasSubstr("rank 2 on c has 0 of 2 connections"), HasSubstr("firewall")));
}

TEST(Doctor, WorstFirst) {
  Facts facts = two_hosts();
  facts.ranks[1].cpu.isa = "avx2";
  facts.ranks[1].gflops = 40;
  facts.ranks[1].mpi = "MPICH";
  std::vector<std::string> names;
  for (const Finding& finding : find(facts)) names.push_back(finding.name);
  EXPECT_THAT(names, ElementsAre("versions", "slow_rank", "isa"));
}

TEST(Doctor, EqualAnswersAreOneLine) {
  Facts facts{.ranks = {healthy(0), healthy(1), healthy(2), healthy(3, "b")}};
  const std::string text = describe_facts(facts);
  EXPECT_THAT(text, AllOf(HasSubstr("ranks 0-2: a, "), HasSubstr("rank 3: b, "),
                          HasSubstr("ranks 0-3: none: there is no NVIDIA driver")));
  EXPECT_EQ(name_numbers({8, 0, 2, 1}), "0-2, 8");
  EXPECT_EQ(name_ranks({5}), "rank 5");
}

TEST(Doctor, ManyRanksGetASummary) {
  Facts facts;
  for (int r = 0; r < 9; ++r) facts.ranks.push_back(healthy(r));
  facts.links = {{0, 1, 1, 10}, {0, 2, 2, 9}, {1, 2, 3, 8}};
  EXPECT_THAT(describe_measurements(facts),
              AllOf(HasSubstr("min 1.00, median 2.00, max 3.00; slowest: ranks 1 and 2"),
                    HasSubstr("min 8.00, median 9.00, max 10.00; slowest: ranks 1 and 2")));
  facts.ranks.resize(3);
  EXPECT_THAT(describe_measurements(facts), AllOf(HasSubstr("rank 2"), Not(HasSubstr("slowest"))));
}

TEST(Doctor, ARankTravelsWhole) {
  Rank rank = healthy(3);
  rank.cpu.model = "a name that is no UTF-8: \xff";
  rank.gpus.devices = {"H200"};
  rank.side_links_wanted = 3;
  const Rank back = rank_from_text(to_text(rank));
  EXPECT_EQ(back.rank, 3);
  EXPECT_EQ(back.side_links_wanted, 3);
  EXPECT_EQ(back.cpu.mask, rank.cpu.mask);
  EXPECT_EQ(back.gpus.devices, rank.gpus.devices);
  EXPECT_THAT(back.cpu.model, HasSubstr("no UTF-8"));
}

}  // namespace
}  // namespace rondo::doctor
