// send and recv: one message to one peer, independent of the collectives.

#include <memory>
#include <string>
#include <utility>

#include "dist/collectives/communicator.h"
#include "dist/collectives/dense.h"
#include "dist/collectives/device_collectives.h"
#include "dist/collectives/message_tags.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// Data that must live as long as a request uses it.
struct HostLetter {
  Tensor x;
  MessageContent own, sent = {};
};

/// One message, as an operation: its description (MessageContent) and its elements, with the same
/// tag. Both are posted at once, so that several messages with one tag keep their order.
class Message final : public Operation {
 public:
  Message(Transport& transport, int peer, int tag, std::shared_ptr<HostLetter> letter, bool is_send)
      : transport_(transport), peer_(peer), is_send_(is_send), letter_(std::move(letter)) {
    const Tensor& x = letter_->x;
    if (is_send) {
      requests_[0] = transport.send(peer, tag, &letter_->own, sizeof letter_->own);
      requests_[1] = transport.send(peer, tag, x.data_ptr(), bytes_of(x));
    } else {
      requests_[0] = transport.recv(peer, tag, &letter_->sent, sizeof letter_->sent);
      requests_[1] = transport.recv(peer, tag, x.data_ptr(), bytes_of(x));
    }
  }
  ~Message() override {
    for (Request& request : requests_) transport_.abandon(request);
  }
  Poll poll() override {
    if (!transport_.test(requests_[0])) return Poll::idle;
    if (!is_send_)
      check_elements(letter_->sent, transport_.rank_in_world(peer_), letter_->own,
                     transport_.rank_in_world(transport_.rank()));
    return transport_.test(requests_[1]) ? Poll::done : Poll::idle;
  }
  std::string waiting_for() const override {
    return concat("rank ", transport_.rank_in_world(peer_),
                  is_send_ ? " to receive it" : " to send it");
  }
  int awaits() const override { return transport_.rank_in_world(peer_); }

 private:
  Transport& transport_;
  int peer_;
  bool is_send_;
  std::shared_ptr<HostLetter> letter_;
  Request requests_[2];  // for the description, for the elements
};

}  // namespace

std::string Communicator::check_message(const Tensor& x, int peer, int tag, bool is_send) const {
  const char* what = is_send ? "send" : "recv";
  is_send ? check_dense(what, x) : check_row_major(what, x);
  check_peer(what, peer);
  require<CommError>(peer != rank_, "rank ", rank_in_world(), ": ", what,
                     ": the peer is this rank itself");
  require<CommError>(0 <= tag && tag < tags_of_messages, "rank ", rank_in_world(), ": ", what,
                     ": tag ", tag, " is not within 0 … ", tags_of_messages - 1);
  if (!is_send) x.bump_version();
  return concat(what, is_send ? " to rank " : " from rank ", rank_in_world(peer), " with tag ",
                tag);
}

Communicator::Job Communicator::message_job(const Tensor& x, int peer, int tag, bool is_send) {
  const auto letter = std::make_shared<HostLetter>(HostLetter{.x = x, .own = MessageContent(x)});
  return {.name = check_message(x, peer, tag, is_send),
          .begin = [=, this](ChunkBuffer&) -> std::unique_ptr<Operation> {
            return std::make_unique<Message>(*transport_, peer, tags_of_collectives + tag, letter,
                                             is_send);
          },
          .keep = letter,
          .beside = true};
}
Work Communicator::send_async(const Tensor& message, int peer, int tag) {
  const Tensor x = row_major("send", message);
  if (!is_on_gpu("send", x)) return start(message_job(x, peer, tag, true));
  std::string name = check_message(x, peer, tag, true);  // in a world of one gpu_ is null
  return gpu_->send({std::move(name)}, x, peer, tag);
}
Work Communicator::recv_async(const Tensor& x, int peer, int tag) {
  if (!is_on_gpu("recv", x)) return start(message_job(x, peer, tag, false));
  std::string name = check_message(x, peer, tag, false);
  return gpu_->recv({std::move(name)}, x, peer, tag);
}
void Communicator::send(const Tensor& x, int peer, int tag) { send_async(x, peer, tag).wait(); }
void Communicator::recv(const Tensor& x, int peer, int tag) { recv_async(x, peer, tag).wait(); }

}  // namespace rondo::dist
