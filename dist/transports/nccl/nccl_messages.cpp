#include "dist/transports/nccl/nccl_messages.h"

#include <algorithm>
#include <deque>
#include <set>
#include <thread>
#include <utility>

#include "dist/collectives/dense.h"
#include "dist/collectives/message_tags.h"
#include "tensor/cuda/stream.h"
#include "tensor/cuda_graph.h"
#include "tensor/error.h"

namespace rondo::dist {

// What the hosts send each other, as raw bytes.
struct Announcement {
  std::uint64_t number = 0;  // of the message on its channel, in the order of posting
  MessageContent elements = {};
  ncclUniqueId id = {};  // of the channel's communicator
};
struct GoAhead {
  std::uint64_t number = 0;
  MessageContent elements = {};  // for which the receiver has room
};

/// The state of the messages from one rank to another; both sides have one. Only the thread that
/// polls (dist/collectives/progress.h) uses it, except for the communicator.
struct NcclChannel {
  NcclChannel(int rank, int device) : comm(rank), stream(cuda::Stream::create(device)) {}

  NcclCommunicator comm;
  cuda::Stream stream;
  ncclUniqueId id = {};
  bool is_connected = false;
  std::deque<std::uint64_t> turns;  // messages with a go-ahead that are not in the stream yet
  // Used by the sender.
  std::uint64_t next_number = 0;
  std::set<std::uint64_t> announced;             // numbers that have no go-ahead yet
  std::map<std::uint64_t, MessageContent> room;  // for numbers that have a go-ahead
  Request heard;
  GoAhead go_ahead;
};

namespace {

// NCCL uses at most 32 blocks for a kernel, each on a multiprocessor of its own. An L4 has 58
// multiprocessors, an H100 132.
constexpr int blocks_of_messages = 32;

/// One message: data that must live as long as a request uses it.
struct Letter {
  Tensor x;
  std::shared_ptr<NcclChannel> channel;
  int me, peer, tag;
  bool is_send;
  std::string what;
  cuda::Event ready;  // in the caller's stream, before the message
  cuda::Event done;   // in the channel's stream, after it
  Announcement announcement = {};
  GoAhead go_ahead = {};
};

/// One message, from its announcement until it is in NCCL's stream.
class NcclMessage final : public Operation {
 public:
  NcclMessage(Transport& transport, std::shared_ptr<Letter> letter, Watchdog& watchdog)
      : transport_(transport), letter_(std::move(letter)), watchdog_(watchdog) {
    Letter& l = *letter_;
    if (!l.is_send) {
      told_ = transport_.recv(l.peer, tag(), &l.announcement, sizeof l.announcement);
      return;
    }
    l.announcement = {channel().next_number++, MessageContent(l.x), channel().id};
    channel().announced.insert(l.announcement.number);
    told_ = transport_.send(l.peer, tag(), &l.announcement, sizeof l.announcement);
  }
  ~NcclMessage() override {
    transport_.abandon(told_);
    transport_.abandon(answered_);
  }

  Poll poll() override {
    watchdog_.failure()->check();
    try {
      if (!may_go_) may_go_ = letter_->is_send ? has_go_ahead() : has_announcement();
      if (!may_go_ || !is_of_right_type_and_size()) return Poll::idle;
      if (!is_put_) is_put_ = put();
      // Each of the two requests must be polled.
      const bool told = transport_.test(told_), answered = transport_.test(answered_);
      return is_put_ && told && answered ? Poll::done : Poll::idle;
    } catch (const std::exception& e) {
      // The other side waits for NCCL or soon will, so the channel cannot be used any further.
      watchdog_.give_up(
          concat("rank ", name(letter_->me), ": ", letter_->what, " failed: ", e.what()));
      throw;
    }
  }
  std::string waiting_for() const override {
    const std::string peer = concat("rank ", name(letter_->peer));
    if (!may_go_) return peer + (letter_->is_send ? " to receive it" : " to send it");
    return concat("NCCL's connection to ", peer);
  }

 private:
  NcclChannel& channel() const { return *letter_->channel; }
  int name(int r) const { return transport_.rank_in_world(r); }
  int tag() const { return tags_of_collectives + letter_->tag; }

  /// Throws CommError on both sides; on the receiver's side only after it has told the sender.
  bool is_of_right_type_and_size() {
    const MessageContent &sent = letter_->announcement.elements,
                         &wanted = letter_->go_ahead.elements;
    if (sent != wanted && !transport_.test(answered_)) return false;
    const int from = name(letter_->is_send ? letter_->me : letter_->peer),
              to = name(letter_->is_send ? letter_->peer : letter_->me);
    check_elements(sent, from, wanted, to);
    return true;
  }

  /// For the receiver.
  bool has_announcement() {
    Letter& l = *letter_;
    if (!transport_.test(told_)) return false;
    l.go_ahead = {l.announcement.number, MessageContent(l.x)};
    answered_ = transport_.send(l.peer, tag_of_go_aheads, &l.go_ahead, sizeof l.go_ahead);
    channel().id = l.announcement.id;
    channel().turns.push_back(l.announcement.number);
    return true;
  }

  /// For the sender. A go-ahead may be for any message of the channel.
  bool has_go_ahead() {
    NcclChannel& c = channel();
    while (!c.announced.empty()) {
      if (c.heard.id == 0)
        c.heard = transport_.recv(letter_->peer, tag_of_go_aheads, &c.go_ahead, sizeof c.go_ahead);
      if (!transport_.test(c.heard)) break;
      require<CommError>(c.announced.erase(c.go_ahead.number) == 1, "rank ", name(letter_->peer),
                         " wants message ", c.go_ahead.number, ", which was not sent");
      c.room.emplace(c.go_ahead.number, c.go_ahead.elements);
      c.turns.push_back(c.go_ahead.number);
    }
    const auto found = c.room.find(letter_->announcement.number);
    if (found == c.room.end()) return false;
    letter_->go_ahead = {found->first, found->second};
    c.room.erase(found);
    return true;
  }

  /// Puts the message into the channel's stream, if it is its turn. Returns whether it is there.
  bool put() {
    NcclChannel& c = channel();
    if (c.turns.front() != letter_->announcement.number) return false;
    if (bytes_of(letter_->x) > 0 && !(is_connected() && is_in_stream())) return false;
    c.turns.pop_front();
    return true;
  }
  bool is_connected() {
    NcclChannel& c = channel();
    if (c.is_connected) return true;
    const cuda::DeviceGuard guard(c.stream.device());
    std::lock_guard lock(c.comm.mutex);
    if (!c.comm.has_begun()) {
      const int channels = 2 * (transport_.world_size() - 1);  // to and from every other rank
      c.comm.begin(letter_->is_send ? 0 : 1, 2, c.id, letter_->what,
                   std::max(1, blocks_of_messages / channels));
    }
    return c.is_connected = c.comm.is_settled(letter_->what);
  }
  bool is_in_stream() {
    Letter& l = *letter_;
    NcclChannel& c = channel();
    const cuda::DeviceGuard guard(c.stream.device());
    {
      std::lock_guard lock(c.comm.mutex);
      if (!is_asked_) {
        is_asked_ = true;
        l.ready.block(c.stream);
        const Nccl& table = nccl();
        const ncclComm_t comm = c.comm.get(l.what);
        c.comm.check(
            l.is_send
                ? table.send(l.x.data_ptr(), bytes_of(l.x), ncclUint8, 1, comm, c.stream.get())
                : table.recv(l.x.data_ptr(), bytes_of(l.x), ncclUint8, 0, comm, c.stream.get()),
            l.what);
      }
      if (!c.comm.is_settled(l.what)) return false;
    }
    l.done.record(c.stream);
    watchdog_.watch(l.what, [letter = letter_] { return letter->done.is_done(); });
    return true;
  }

  Transport& transport_;
  std::shared_ptr<Letter> letter_;
  Watchdog& watchdog_;
  Request told_, answered_;
  bool may_go_ = false, is_asked_ = false, is_put_ = false;
};

/// Waits for the host's part, and then for the stream's.
class MessageWork final : public Pending {
 public:
  MessageWork(Work meeting, std::shared_ptr<Letter> letter, std::shared_ptr<const Failure> failure)
      : meeting_(std::move(meeting)), letter_(std::move(letter)), failure_(std::move(failure)) {}

  bool test() override { return meeting_.test() && letter_->done.is_done(); }
  void wait(std::optional<std::chrono::nanoseconds> timeout) override {
    const auto begin = Clock::now();
    meeting_.wait(timeout);
    while (timeout && !letter_->done.is_done()) {
      failure_->check();
      require<CommError>(Clock::now() - begin < *timeout, letter_->what, " was not complete after ",
                         std::chrono::duration<double>(*timeout).count(), " s");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    failure_->check();
    letter_->done.block(cuda::current_stream(letter_->channel->stream.device()));
  }
  Clock::time_point issued() const override { return meeting_.issued(); }
  Clock::time_point started() const override { return {}; }
  Clock::time_point finished() const override { return {}; }
  std::string name() const override { return letter_->what; }

 private:
  Work meeting_;
  std::shared_ptr<Letter> letter_;
  std::shared_ptr<const Failure> failure_;
};

}  // namespace

NcclMessages::NcclMessages(HostCollectives& host, Device device, Watchdog& watchdog)
    : host_(host), device_(device), watchdog_(watchdog) {}
NcclMessages::~NcclMessages() = default;

int NcclMessages::rank_in_world() const {
  return host_.transport()->rank_in_world(host_.transport()->rank());
}

std::shared_ptr<NcclChannel> NcclMessages::channel(int peer, bool is_send) {
  std::lock_guard lock(mutex_);
  std::shared_ptr<NcclChannel>& found = channels_[{peer, is_send}];
  if (found == nullptr) {
    found = std::make_shared<NcclChannel>(rank_in_world(), device_.index);
    if (is_send) {
      const ncclResult_t status = nccl().get_unique_id(&found->id);
      require<CommError>(status == ncclSuccess,
                         "NCCL cannot create a unique id: ", nccl().error_string(status));
    }
  }
  return found;
}

Work NcclMessages::post(const Collective& c) {
  const std::string what = c.title();
  require<CommError>(!cuda::is_capturing(), "rank ", rank_in_world(), ": ", what,
                     ": a message cannot be captured into a graph, since the ranks "
                     "synchronize on the host first; collectives can");
  watchdog_.failure()->check();
  const bool is_send = c.kind == Collective::Kind::send;
  const auto transport = host_.transport();
  auto letter = std::make_shared<Letter>(Letter{.x = c.x,
                                                .channel = channel(c.peer, is_send),
                                                .me = transport->rank(),
                                                .peer = c.peer,
                                                .tag = c.tag,
                                                .is_send = is_send,
                                                .what = what,
                                                .ready = cuda::Event(device_.index),
                                                .done = cuda::Event(device_.index)});
  letter->ready.record(cuda::current_stream(device_.index));
  auto meeting = std::make_shared<WorkState>();
  meeting->label = what;
  meeting->is_message = true;
  meeting->begin = [transport, letter,
                    &watchdog = watchdog_](ChunkBuffer&) -> std::unique_ptr<Operation> {
    return std::make_unique<NcclMessage>(*transport, letter, watchdog);
  };
  return Work(
      std::make_shared<MessageWork>(host_.submit(std::move(meeting)), letter, watchdog_.failure()));
}

std::vector<NcclCommunicator*> NcclMessages::communicators() {
  std::lock_guard lock(mutex_);
  std::vector<NcclCommunicator*> all;
  for (const auto& [key, channel] : channels_) all.push_back(&channel->comm);
  return all;
}

std::string NcclMessages::error() {
  for (NcclCommunicator* comm : communicators()) {
    {
      std::lock_guard lock(comm->mutex);
      if (!comm->has_begun()) continue;
    }
    if (std::string error = comm->error(); !error.empty()) return error;
  }
  return {};
}

void NcclMessages::abort() {
  for (NcclCommunicator* comm : communicators()) comm->abort();
}

}  // namespace rondo::dist
