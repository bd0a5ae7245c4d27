#include "dist/collectives/algorithms/pipeline.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <new>

#include "tensor/error.h"

namespace rondo::dist {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t least_huge = std::size_t{256} << 10;

}  // namespace

char* ChunkBuffer::reserve(std::size_t bytes) {
  if (bytes <= bytes_) return data_.get();
  data_.reset();
  bytes_ = 0;
  // Reading another process's memory copies page by page: with 4 KiB pages at half the speed. This
  // does not use the tensors' allocator, which also has huge pages, because simulations link only
  // the algorithms.
  const std::size_t page = bytes >= least_huge ? huge_page : 64;
  const std::size_t whole = (bytes + page - 1) / page * page;
  data_.reset(static_cast<char*>(std::aligned_alloc(page, whole)));
  if (data_ == nullptr) throw std::bad_alloc();
  if (page == huge_page)
    madvise(data_.get(), whole, MADV_HUGEPAGE);  // the kernel may ignore this request
  bytes_ = whole;
  return data_.get();
}

void ChunkBuffer::Free::operator()(char* p) const { std::free(p); }

Pipeline::Pipeline(Transport& transport, ChunkBuffer& scratch, std::unique_ptr<Schedule> schedule,
                   Options options)
    : transport_(transport),
      schedule_(std::move(schedule)),
      options_(options),
      hops_(schedule_->hops()),
      window_(std::clamp<std::int64_t>(options.window, 1, std::max<std::int64_t>(hops_, 1))),
      slot_bytes_(static_cast<std::int64_t>((options.chunk_bytes + 63) / 64 * 64)),
      slots_(scratch.reserve(static_cast<std::size_t>(window_ * slot_bytes_))),
      receives_(static_cast<std::size_t>(window_)),
      sends_(static_cast<std::size_t>(window_)) {}

Pipeline::~Pipeline() {
  for (Request& r : receives_) transport_.abandon(r);
  for (Request& r : sends_) transport_.abandon(r);
}

Poll Pipeline::poll() {
  bool moved = post_receives();
  moved |= post_sends();
  moved |= finish_receives();
  moved |= finish_sends();
  if (receives_done_ == hops_ && sends_done_ == hops_) return Poll::done;
  return moved ? Poll::moved : Poll::idle;
}

bool Pipeline::post_receives() {
  bool moved = false;
  while (receives_posted_ < hops_ && receives_posted_ < receives_done_ + window_) {
    Hop hop = schedule_->hop(receives_posted_);
    if (hop.recv_after >= sends_done_) break;
    if (hop.recv_bytes > 0) {
      void* place = hop.recv ? hop.recv : slot(receives_posted_);
      receives_[receives_posted_ % window_] =
          transport_.recv(options_.from, options_.tag, place, hop.recv_bytes);
    }
    ++receives_posted_;
    moved = true;
  }
  return moved;
}

// Processes at most one chunk a call, so that this chunk can be sent on before the next is
// processed.
bool Pipeline::finish_receives() {
  if (receives_done_ == receives_posted_) return false;
  if (!transport_.test(receives_[receives_done_ % window_])) return false;
  schedule_->arrived(receives_done_, slot(receives_done_));
  ++receives_done_;
  return true;
}

bool Pipeline::post_sends() {
  bool moved = false;
  while (sends_posted_ < hops_ && sends_posted_ < sends_done_ + window_) {
    Hop hop = schedule_->hop(sends_posted_);
    if (hop.send_after >= receives_done_) break;
    if (hop.send_bytes > 0) {
      sends_[sends_posted_ % window_] =
          transport_.send(options_.to, options_.tag, hop.send, hop.send_bytes);
    }
    ++sends_posted_;
    moved = true;
  }
  return moved;
}

bool Pipeline::finish_sends() {
  bool moved = false;
  while (sends_done_ < sends_posted_ && transport_.test(sends_[sends_done_ % window_])) {
    ++sends_done_;
    moved = true;
  }
  return moved;
}

std::string Pipeline::waiting_for() const {
  if (receives_done_ < hops_ && schedule_->hop(receives_done_).recv_bytes > 0) {
    return concat("chunk ", receives_done_ + 1, " of ", hops_, " from rank ",
                  transport_.rank_in_world(options_.from));
  }
  return concat("rank ", transport_.rank_in_world(options_.to), " to take chunk ", sends_done_ + 1,
                " of ", hops_);
}

}  // namespace rondo::dist
