// One mailbox for all ranks, with one mutex. For each (from, to, tag), sends and receives are
// paired in the order in which they were posted, and the second of a pair copies the bytes. This is
// simple rather than fast: its purpose is to show the algorithms that use it.

#include "dist/transports/thread/thread_transport.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <tuple>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

struct ThreadMessage {
  bool is_send;
  const void* source;  // of a send; null for 0 bytes
  void* target;        // of a receive; likewise
  std::size_t bytes;
  std::uint64_t id = 0;
  bool is_abandoned = false;  // its memory must not be used
};

struct Mailbox {
  using Key = std::tuple<int, int, int>;  // from, to, tag
  struct Queues {
    std::deque<ThreadMessage> sends, receives;
  };
  std::mutex mutex;
  std::map<Key, Queues> queues;
  std::map<std::uint64_t, Key> pending;         // requests that are not complete
  std::map<std::uint64_t, std::string> failed;  // the errors of failed requests
  std::uint64_t next_id = 1;
  int aborted_by = -1;
};

class ThreadTransport final : public Transport {
 public:
  ThreadTransport(std::shared_ptr<Mailbox> mailbox, int rank, int size)
      : mailbox_(std::move(mailbox)), rank_(rank), size_(size) {}

  int rank() const override { return rank_; }
  int world_size() const override { return size_; }
  const char* name() const override { return size_ == 1 ? "self" : "thread"; }

  Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    count_sent(bytes);
    return post({rank_, peer, tag},
                {.is_send = true, .source = data, .target = nullptr, .bytes = bytes});
  }
  Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    return post({peer, rank_, tag},
                {.is_send = false, .source = nullptr, .target = data, .bytes = bytes});
  }

  bool test(Request& request) override {
    if (request.id == 0) return true;
    std::lock_guard lock(mailbox_->mutex);
    auto failure = mailbox_->failed.find(request.id);
    if (failure != mailbox_->failed.end()) throw CommError(failure->second);
    auto key = mailbox_->pending.find(request.id);
    if (key != mailbox_->pending.end()) {
      require<CommError>(mailbox_->aborted_by < 0, "rank ", rank_, ": rank ", mailbox_->aborted_by,
                         " has aborted");
      return false;
    }
    request.id = 0;
    return true;
  }

  void check_peers() override {
    std::lock_guard lock(mailbox_->mutex);
    require<CommError>(mailbox_->aborted_by < 0, "rank ", rank_, ": rank ", mailbox_->aborted_by,
                       " has aborted");
  }

  // An abandoned receive still takes its message. The sender may not have posted it yet, and would
  // otherwise wait for a receiver until its deadline. If the sender has abandoned it, too, then the
  // next message belongs to the next receive. So abandoned sends stay in the queue.
  void abandon(Request& request) noexcept override {
    if (request.id == 0) return;
    std::lock_guard lock(mailbox_->mutex);
    auto key = mailbox_->pending.find(request.id);
    if (key != mailbox_->pending.end()) {
      auto& [sends, receives] = mailbox_->queues[key->second];
      for (auto* messages : {&sends, &receives})
        for (ThreadMessage& m : *messages) m.is_abandoned |= m.id == request.id;
      match(key->second);
      mailbox_->pending.erase(request.id);
    }
    request.id = 0;
  }

  void abort(int) noexcept override {
    std::lock_guard lock(mailbox_->mutex);
    if (mailbox_->aborted_by < 0) mailbox_->aborted_by = rank_;
  }

 private:
  Request post(Mailbox::Key key, ThreadMessage message) {
    auto [from, to, tag] = key;
    int peer = from == rank_ ? to : from;
    require<CommError>(0 <= peer && peer < size_, "rank ", rank_, ": rank ", peer,
                       " does not exist in a world of ", size_);
    std::lock_guard lock(mailbox_->mutex);
    message.id = mailbox_->next_id++;
    auto& [sends, receives] = mailbox_->queues[key];
    (message.is_send ? sends : receives).push_back(message);
    mailbox_->pending[message.id] = key;
    match(key);
    return {message.id};
  }

  void match(Mailbox::Key key) {
    auto& [sends, receives] = mailbox_->queues[key];
    while (!receives.empty()) {
      auto sent = sends.begin();
      if (!receives.front().is_abandoned)
        sent = std::ranges::find(sends, false, &ThreadMessage::is_abandoned);
      if (sent == sends.end()) return;
      deliver(key, *sent, receives.front());
      sends.erase(sends.begin(), sent + 1);
      receives.pop_front();
    }
  }

  void deliver(Mailbox::Key key, const ThreadMessage& sent, const ThreadMessage& wanted) {
    auto [from, to, tag] = key;
    if (wanted.is_abandoned) {
      // the bytes are dropped
    } else if (sent.bytes == wanted.bytes) {
      if (sent.bytes) std::memcpy(wanted.target, sent.source, sent.bytes);
    } else {
      mailbox_->failed[wanted.id] =
          concat("rank ", to, ": rank ", from, " sent ", sent.bytes, " bytes where ", wanted.bytes,
                 " were expected; do both call the same collective on the same sizes?");
    }
    mailbox_->pending.erase(sent.id);
    mailbox_->pending.erase(wanted.id);
  }

  std::shared_ptr<Mailbox> mailbox_;
  int rank_, size_;
};

}  // namespace

std::vector<std::shared_ptr<Transport>> thread_transports(int n) {
  require<CommError>(n >= 1, "a world of ", n, " ranks: at least one is needed");
  auto mailbox = std::make_shared<Mailbox>();
  std::vector<std::shared_ptr<Transport>> transports;
  for (int r = 0; r < n; ++r)
    transports.push_back(std::make_shared<ThreadTransport>(mailbox, r, n));
  return transports;
}

void run_on_threads(int n, const std::function<void(std::shared_ptr<Transport>)>& f) {
  auto transports = thread_transports(n);
  std::vector<std::thread> threads;
  std::mutex mutex;
  std::exception_ptr first;  // the cause; later exceptions are mostly consequences
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&, r] {
      try {
        f(transports[static_cast<std::size_t>(r)]);
      } catch (...) {
        std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        transports[static_cast<std::size_t>(r)]->abort(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace rondo::dist
