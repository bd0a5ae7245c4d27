// HostCollectives: send and recv, one message to one peer, independent of the collectives.

#include <memory>
#include <string>
#include <utility>

#include "dist/collectives/dense.h"
#include "dist/collectives/host_collectives.h"
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

Begin HostCollectives::message(const Call& c) {
  const auto letter =
      std::make_shared<HostLetter>(HostLetter{.x = c->x, .own = MessageContent(c->x)});
  return [=, this](ChunkBuffer&) -> std::unique_ptr<Operation> {
    return std::make_unique<Message>(*transport_, c->peer, tags_of_collectives + c->tag, letter,
                                     c->kind == Kind::send);
  };
}

}  // namespace rondo::dist
