// How ranks find each other before MPI has started, by what the launcher calls the job.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "dist/launcher.h"
#include "dist/side_channel.h"
#include "support/played_rank.h"
#include "support/ranks.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

using test::comes_true;
using test::expect_connections;
using test::expect_ended;
using test::on_ranks;
using test::open_files;
using test::Played;

/// A job of this test's own.
Launcher job(int rank, int size, const std::string& secret = {}) {
  static std::atomic<int> last = 0;
  static const std::string start = concat(getpid(), '-', Clock::now().time_since_epoch().count());
  if (rank == 0) ++last;
  return {.name = "a test",
          .rank = rank,
          .size = size,
          .job = concat(start, '-', last.load()),
          .secret = secret,
          .on_one_machine = true};
}

std::vector<std::unique_ptr<SideChannel>> channels_of(int n) {
  std::vector<std::unique_ptr<SideChannel>> all;
  for (int r = 0; r < n; ++r)
    all.push_back(std::make_unique<SideChannel>(job(r, n), std::vector<std::string>()));
  return all;
}

TEST(SideChannelBeforeMpi, RanksOfAMachineFindEachOtherByName) {
  const std::size_t files = open_files();
  for (int n : {2, 3, 9}) {
    auto all = channels_of(n);
    for (int r = 0; r < n; ++r) {
      expect_connections(*all[r], std::ssize(SideChannel::neighbours(r, n)));
      EXPECT_TRUE(comes_true([&] { return all[r]->absent().empty(); })) << all[r]->absent();
    }
    for (auto& channel : all) {
      EXPECT_EQ(channel->ended(), "");
      channel.reset();
    }
  }
  EXPECT_EQ(open_files(), files);
}

// A program may go on alone where MPI has not started, and end.
TEST(SideChannelBeforeMpi, RanksPartThatWereNeverIntroduced) {
  auto all = channels_of(3);
  for (auto& channel : all) expect_connections(*channel, 2);
  std::vector<std::thread> ranks;
  for (auto& channel : all) ranks.emplace_back([&] { EXPECT_EQ(channel->part(), ""); });
  for (auto& rank : ranks) rank.join();
}

// As MPI would start only then.
TEST(SideChannelBeforeMpi, WhoHasNotComeIsNamedAndMayComeLater) {
  std::vector<std::unique_ptr<SideChannel>> all(6);
  const Launcher first = job(0, 6);
  const auto start = [&](int r) {
    Launcher mine = first;
    mine.rank = r;
    all[r] = std::make_unique<SideChannel>(mine, std::vector<std::string>());
  };
  for (int r : {5, 0, 2}) start(r);
  expect_connections(*all[0], 2);
  EXPECT_EQ(all[0]->absent(), "nothing has been heard of ranks 1, 4");
  expect_connections(*all[2], 1);
  EXPECT_EQ(all[2]->absent(), "nothing has been heard of ranks 1, 3, 4");
  start(1);
  start(3);
  EXPECT_TRUE(comes_true([&] { return all[0]->absent() == "nothing has been heard of rank 4"; }));
  all[5]->tell("rank 5: no such file");
  for (int r : {0, 1, 2, 3})
    EXPECT_TRUE(comes_true([&] { return all[r]->failed() == "rank 5: no such file"; }));
  start(4);
  EXPECT_TRUE(comes_true([&] { return all[4]->failed() == "rank 5: no such file"; }));
}

/// All ports on which this process waits for others.
std::set<int> ports_here() {
  std::set<int> ports;
  for (int file = 0; file < 1024; ++file) {
    int listens = 0;
    socklen_t length = sizeof listens;
    sockaddr_in6 address = {};
    socklen_t size = sizeof address;
    if (getsockopt(file, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0 &&
        getsockname(file, reinterpret_cast<sockaddr*>(&address), &size) == 0 &&
        (address.sin6_family == AF_INET6 || address.sin6_family == AF_INET))
      ports.insert(ntohs(address.sin6_port));  // of IPv4 it has the same place
  }
  return ports;
}

/// Calls where rank 0 of two waits, as rank 1. Empty: it is not let in.
Socket call(const std::string& address, int port, const std::string& token) {
  Socket socket = connect_to(address, port);
  pollfd file = {.fd = socket.file(), .events = POLLOUT, .revents = 0};
  if (!socket || poll(&file, 1, 10'000) != 1 || !socket.is_connected()) return {};
  std::string hello = Played::message('h', token + " 1 0 4242 0 \"node7 boot\""), heard;
  socket.send(hello);
  const auto until = Clock::now() + std::chrono::milliseconds(300);
  while (heard.empty() && socket.receive(heard) == Socket::Line::open && Clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!heard.starts_with('h')) return {};
  std::string beat = Played::message('.');
  socket.send(beat);
  return socket;
}

// From other machines ranks come by a port that follows from the job's name and secret. The name
// every user of a machine may know; where there is no secret, nobody comes before MPI has started.
TEST(SideChannelBeforeMpi, NobodyComesByPortWithoutTheSecret) {
  for (const std::string& secret : {std::string("0123456789abcdef"), std::string()}) {
    const Launcher launcher = job(0, 2, secret);
    const SideChannel channel(launcher, {});
    const std::set<int> ports = ports_here();
    ASSERT_EQ(ports.size(), 1u);
    const int port = *ports.begin();
    const std::vector<int> expected = SideChannel::ports_of(launcher, 0);
    EXPECT_EQ(std::ranges::find(expected, port) != expected.end(), !secret.empty());
    for (const std::string& wrong : {launcher.job, secret, concat("-", launcher.job),
                                     std::string("0123456789abcdeX"), std::string()})
      EXPECT_FALSE(call("127.0.0.1", port, wrong)) << wrong;
    {
      const Socket socket = call("127.0.0.1", port, concat("0123456789abcdef-", launcher.job));
      ASSERT_EQ(bool(socket), !secret.empty());
      if (secret.empty()) continue;
      expect_connections(channel, 1);
    }
    expect_ended(channel, "rank 1 (process 4242 on node7) has ended");
  }
}

// Within a machine everybody may know how the job is called.
TEST(SideChannelBeforeMpi, NobodyComesByNameWhoIsAnotherUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const Launcher launcher = job(0, 2);
  const SideChannel channel(launcher, {});
  const std::string name = concat("@rondo-", launcher.job, "-0");
  const pid_t stranger = fork();
  if (stranger == 0) {
    const bool is_another = setresuid(65534, 65534, 65534) == 0;
    _exit(!is_another ? 2 : call(name, 0, launcher.job) ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(stranger, &status, 0), stranger);
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: let in; 2: still the same user";
  EXPECT_TRUE(call(name, 0, launcher.job)) << "this user is";
}

// What could not be guessed is told: here nobody is where the others guess.
TEST(SideChannelBeforeMpi, WhenMpiHasStartedTheOthersAreFound) {
  on_ranks(3, [](auto comm) {
    Launcher mine{.name = "a test", .rank = comm->rank(), .size = 3};
    mine.job = concat("guess-", getpid(), '-', comm->rank());  // each calls the job otherwise
    mine.secret = "0123456789abcdef";
    auto channel = std::make_shared<SideChannel>(mine, std::vector<std::string>());
    comm->barrier();
    EXPECT_EQ(channel->connections(), 0);
    comm->use_side_channel(channel);
    expect_connections(*channel, 2);
    comm->barrier();  // who leaves takes its connections along
    if (comm->rank() == 1) comm->watch()->tell("rank 1: no such file");
    EXPECT_TRUE(comes_true([&] { return channel->failed() == "rank 1: no such file"; }));
  });
}

}  // namespace
}  // namespace rondo::dist
