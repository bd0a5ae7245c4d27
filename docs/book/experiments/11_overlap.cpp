// One step of DistributedDataParallel on two ranks that are threads: which gradients are complete
// when a bucket is full, and when its all-reduce is launched. With the name of a folder, also
// writes a trace of each step to it, and a profile of the first step.
//
// The layers are small. A hook sleeps where the backward of a large layer would compute, and the
// link has a limited rate. So the times are those of a large model on a slow network, and a loaded
// machine hardly changes them.
#include <rondo/rondo.h>

#include <algorithm>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace rd = rondo;
namespace dist = rondo::dist;
namespace nn = rondo::nn;
using dist::Clock;
using rondo::Tensor;

namespace {

constexpr auto backward_of_a_layer = std::chrono::milliseconds(40);
constexpr double bytes_per_second = 2.5e6;

/// A transport on which what a rank receives arrives at a limited rate.
class SlowLink final : public dist::Transport {
 public:
  explicit SlowLink(std::shared_ptr<dist::Transport> fast) : fast_(std::move(fast)) {}
  int rank() const override { return fast_->rank(); }
  int world_size() const override { return fast_->world_size(); }
  const char* name() const override { return "slow link"; }
  dist::Request send(int peer, int tag, const void* data, std::size_t bytes) override {
    return fast_->send(peer, tag, data, bytes);
  }
  dist::Request recv(int peer, int tag, void* data, std::size_t bytes) override {
    const dist::Request request = fast_->recv(peer, tag, data, bytes);
    const std::lock_guard lock(mutex_);
    bytes_[request.id] = bytes;
    return request;
  }
  bool test(dist::Request& request) override {
    const auto now = Clock::now();
    const std::lock_guard lock(mutex_);
    if (const auto due = due_.find(request.id); due != due_.end()) {
      if (now < due->second) return false;
      due_.erase(due);
      request.id = 0;
      return true;
    }
    const auto id = request.id;
    if (!fast_->test(request)) return false;
    const auto found = bytes_.find(id);
    if (found == bytes_.end()) return true;  // a send
    const std::chrono::duration<double> time(static_cast<double>(found->second) / bytes_per_second);
    bytes_.erase(found);
    is_free_ = std::max(is_free_, now) + std::chrono::duration_cast<Clock::duration>(time);
    due_[id] = is_free_;
    request.id = id;
    return false;
  }
  void abandon(dist::Request& request) noexcept override { fast_->abandon(request); }
  void abort(int status) noexcept override { fast_->abort(status); }

 private:
  std::shared_ptr<dist::Transport> fast_;
  std::mutex mutex_;
  std::map<std::uint64_t, std::size_t> bytes_;      // of receives that are under way
  std::map<std::uint64_t, Clock::time_point> due_;  // when what has arrived may be seen
  Clock::time_point is_free_{};
};

struct Net : nn::Module {
  nn::Linear fc1{128, 128}, fc2{128, 128}, fc3{128, 128}, fc4{128, 128};
  std::vector<nn::Linear*> order;  // in which forward calls them

  explicit Net(bool swaps) : order{&fc1, &fc2, &fc3, &fc4} {
    if (swaps) std::swap(order[1], order[2]);
  }
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (nn::Linear* layer : order) {
      y = (*layer)(y);
      register_hook(y, [](const Tensor&) {
        std::this_thread::sleep_for(backward_of_a_layer);
        return Tensor();
      });
    }
    return y;
  }
  void visit(nn::Visitor& v) override {
    v.child("fc1", fc1);
    v.child("fc2", fc2);
    v.child("fc3", fc3);
    v.child("fc4", fc4);
  }
};

struct Case {
  std::string title, file;
  bool overlap, swaps;
};

void step(const Case& c, const std::shared_ptr<dist::Transport>& transport,
          const std::filesystem::path& folder) {
  const auto comm = std::make_shared<dist::Communicator>(
      std::make_shared<SlowLink>(transport),
      dist::CommunicatorOptions{.all_reduce = dist::AllReduce::ring});
  Net net(c.swaps);
  std::vector<std::pair<std::string, Clock::time_point>> gradients;
  for (const nn::NamedTensor& p : net.named_parameters())
    register_post_accumulate_grad_hook(p.tensor, [&gradients, name = p.name](const Tensor&) {
      gradients.emplace_back(name, Clock::now());
    });
  const std::int64_t layer = (128 * 128 + 128) * 4;
  dist::DDP ddp(
      net, comm,
      {.buckets = {.bucket_bytes = layer, .first_bucket_bytes = layer}, .overlap = c.overlap});
  rd::optim::SGD sgd(net.parameters(), {.lr = 0.1});
  const Tensor x = rd::ones({256, 128});
  std::optional<rd::train::TimelineTrace> trace;
  if (!folder.empty()) trace.emplace(*comm);
  rd::train::Profiler profiler({.record_shapes = true, .profile_memory = true});
  std::optional<rd::train::Profiler::Recording> recording;
  comm->barrier();
  if (trace && comm->rank() == 0 && c.file == "overlap") recording.emplace(profiler.start());

  {
    const rd::RecordFunction part("zero_grad");
    sgd.zero_grad();
  }
  Tensor loss;
  {
    const rd::train::TimelineTrace::Span span(trace ? &*trace : nullptr, "forward");
    loss = mean(ddp(x));
  }
  {
    const rd::train::TimelineTrace::Span span(trace ? &*trace : nullptr, "backward");
    loss.backward();
  }
  sgd.step();
  if (recording) {
    recording.reset();
    profiler.write_chrome_trace(folder / "11_profile.json");
  }
  const dist::StepTimeline& t = ddp.timeline();
  if (trace) {
    trace->add("wait for gradients", t.backward_end, t.synchronized);
    trace->write(folder / ("11_" + c.file + ".json"));
  }
  if (comm->rank() != 0) return;

  const auto count = [&](Clock::time_point at) {
    return std::ranges::count_if(gradients, [&](const auto& g) { return g.second <= at; });
  };
  std::cout << c.title << "\n  gradients:";
  for (const auto& [name, at] : gradients) std::cout << ' ' << name;
  std::cout << "\n  bucket   bytes  gradients when full  when launched\n";
  const std::vector<std::int64_t> bytes = ddp.bucket_bytes();
  for (std::size_t b = 0; b < bytes.size(); ++b)
    std::cout << std::setw(8) << b + 1 << std::setw(8) << bytes[b] << std::setw(21)
              << count(t.buckets[b].ready) << std::setw(15) << count(t.buckets[b].launched)
              << (t.buckets[b].launched < t.backward_end ? "\n" : ", backward has ended\n");
  rd::train::Overlap overlap;
  overlap.add(t);
  std::cout << std::fixed << std::setprecision(0) << "  backward takes " << overlap.backward_ms
            << " ms, the all-reduces " << overlap.communication_ms << " ms; the step waits "
            << overlap.exposed_ms << " ms for them\n\n";
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : "";
  return dist::run([&] {
    for (const Case& c :
         {Case{"with overlap", "overlap", true, false},
          Case{"without overlap", "no_overlap", false, false},
          Case{"with overlap, fc2 and fc3 swapped in forward", "swapped", true, true}})
      dist::run_on_threads(2, [&](const std::shared_ptr<dist::Transport>& transport) {
        step(c, transport, folder);
      });
    return 0;
  });
}
