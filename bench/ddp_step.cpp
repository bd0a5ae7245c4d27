// Measures data-parallel training: images per second of all ranks together, on random data that
// stays in memory.
//
//   mpirun -np 2 --bind-to none build/bin/ddp_step --model resnet20 --batch 128 --threads 1
//   mpirun -np 2 --bind-to none build/bin/ddp_step --model resnet20 --amp bf16 --threads 1
//   mpirun -np 2 build/bin/ddp_step --model resnet18 --batch 1024 --dtype bf16 --device cuda
//
// --batch is the batch of all ranks together. The time of a step ends on rank 0 when the gradients
// are averaged and the optimizer has stepped. bench/peers/ddp_step.py does the same with PyTorch's
// DDP over gloo; bench/compare_ddp.sh runs them in turns.
//
// --messages makes ranks of one machine use messages, as if they were on several machines. --trace
// and --profile write files about one more step, which is not timed.

#include <omp.h>

#include <algorithm>
#include <functional>
#include <iostream>
#include <optional>

#include "autograd/autocast.h"
#include "autograd/ops/loss.h"
#include "autograd/ops/shape.h"
#include "dist/data_parallel/comm_hook.h"
#include "dist/data_parallel/ddp.h"
#include "dist/data_parallel/zero.h"
#include "dist/launch/device.h"
#include "dist/launch/init.h"
#include "dist/launch/threads.h"
#include "extras/command_line.h"
#include "optim/sgd.h"
#include "report.h"
#include "tensor/cuda.h"
#include "tensor/error.h"
#include "train/profiler.h"
#include "train/trace.h"

namespace {

using namespace rondo;

struct Settings {
  std::string model = "resnet20", dtype = "f32", amp, device = "cpu", all_reduce = "auto", hook,
              trace, profile, json;
  std::int64_t batch = 128;
  int threads = 0;
  bool overlap = true, zero = false, messages = false;
  double bucket_mb = 0, seconds = 10;
};

/// Takes one more step, and writes the files about it.
void record(const Settings& s, dist::DistributedDataParallel& ddp,
            std::optional<train::TimelineTrace>& trace, const std::function<void()>& step) {
  dist::Communicator& comm = ddp.communicator();
  train::Profiler profiler({.record_shapes = true, .profile_memory = true});
  if (!s.trace.empty()) trace.emplace(comm);
  {
    std::optional<train::Profiler::Recording> recording;
    if (comm.rank() == 0) recording.emplace(profiler.start());
    step();
  }
  if (!s.profile.empty() && comm.rank() == 0) profiler.write_chrome_trace(s.profile);
  if (!trace) return;
  trace->add("wait for gradients", ddp.timeline().backward_end, ddp.timeline().synchronized);
  trace->write(s.trace);
}

int program(int argc, char** argv) {
  Settings s;
  flags::CommandLine app("Times a data-parallel training step.");
  app.add("--model", s.model, "mlp, resnet20, resnet18, …");
  app.add("--batch", s.batch, "images in a step, all ranks together", flags::count());
  app.add("--dtype", s.dtype, "f32 or bf16, for weights, gradients and all other tensors",
          flags::one_of({"f32", "bf16"}));
  app.add("--amp", s.amp,
          "f32 weights and gradients, forward under autocast to this type: bf16, or on a GPU "
          "f16",
          flags::one_of({"bf16", "f16"}));
  app.add("--device", s.device, "cpu, or cuda: each rank uses the GPU with its number");
  app.add("--threads", s.threads, "OpenMP threads of a rank; 0: its share of the cores",
          flags::threads());
  app.add("--all-reduce", s.all_reduce, "auto, ring, mpi or, on GPUs, nccl");
  app.add("--compress", s.hook, "fp16, bf16, topk[:RATIO], powersgd[:RANK], sign or int8");
  app.add("--zero", s.zero, "ZeroSharding: a rank's optimizer has only its part of the parameters");
  app.add(
      "--overlap,!--no-overlap", s.overlap,
      "send gradients while backward computes the next ones; with --no-overlap, after backward");
  app.add("--bucket-mb", s.bucket_mb, "largest bucket of gradients, MiB; 0: DDP's default",
          flags::not_negative());
  app.add("--messages", s.messages, "ranks of one machine share no memory");
  app.add("--seconds", s.seconds, "how long to measure", flags::positive());
  app.add("--trace", s.trace, "write a timeline of one step, of all ranks, to this file",
          flags::not_empty());
  app.add("--profile", s.profile, "write a profile of this step on rank 0 to this file",
          flags::not_empty());
  app.add("--json", s.json, "rank 0 writes the result to this file; - is standard output");
  if (auto status = app.parse(argc, argv)) return *status;
  dist::InitOptions init;
  init.communicator.all_reduce = dist::parse_all_reduce(s.all_reduce);
  init.share_memory = !s.messages;
  auto comm = dist::init(init);
  if (comm->rank() == 0) {
    io::check_result_file("--json", s.json);
    io::check_result_file("--trace", s.trace);
    io::check_result_file("--profile", s.profile);
  }
  const int threads = dist::use_threads(*comm, s.threads), n = comm->world_size();
  require(s.batch % n == 0, "--batch ", s.batch, " is not divisible by the ", n, " ranks");
  comm->agree("--model", s.model);
  comm->agree("--batch", std::to_string(s.batch));
  comm->agree("--amp", s.amp);
  comm->agree("--trace", s.trace);
  comm->agree("--profile", s.profile);
  const Device device = dist::use_device(*comm, s.device);
  manual_seed(1 + static_cast<std::uint64_t>(comm->rank()));
  bench::Workload work(s.model, s.batch / n);
  const DType dtype = parse_dtype(s.dtype);
  if (dtype != f32) bench::convert(work.model.get(), dtype);
  work.model.to(device);
  const Tensor x = work.input.to(dtype).to(device), target = work.target.to(device);
  dist::BucketOptions buckets;
  if (s.bucket_mb > 0) buckets.bucket_bytes = std::llround(s.bucket_mb * (1 << 20));
  dist::DistributedDataParallel ddp(work.model.get(), comm,
                                    {.buckets = buckets, .overlap = s.overlap});
  if (!s.hook.empty()) ddp.register_comm_hook(dist::make_comm_hook(s.hook));
  std::optional<dist::ZeroSharding> zero;
  if (s.zero) zero.emplace(ddp);
  optim::SGD sgd(zero ? zero->parameters() : work.model.parameters(),
                 {.lr = 1e-3, .momentum = 0.9});
  std::optional<DType> amp;
  if (!s.amp.empty()) amp = parse_dtype(s.amp);
  auto forward = [&] {
    const AutocastIf cast(device, amp);
    return ddp(x);
  };
  std::optional<train::TimelineTrace> trace;
  auto step = [&] {
    sgd.zero_grad();
    const auto part = [&](const char* name) {
      return train::TimelineTrace::Span(trace ? &*trace : nullptr, name);
    };
    Tensor loss;
    {
      const auto span = part("forward");
      loss = cross_entropy(forward().to(f32), target);
    }
    {
      const auto span = part("backward");
      loss.backward();
    }
    const auto span = part("optimizer");
    sgd.step();
    if (zero) zero->gather();
    if (device.is_cuda()) cuda::synchronize(device.index);
  };
  for (int i = 0; i < 3; ++i) step();
  comm->barrier();
  if (comm->rank() == 0 && s.json != "-")
    std::cout << s.model << " on " << n << " ranks: measuring for " << s.seconds << " s"
              << std::endl;
  // All ranks take the same number of steps: after every ten, rank 0 decides whether to continue.
  std::vector<double> times;
  double total = 0, waiting = 0;
  // For the last step: the least bytes of a hook's collectives, and the bytes handed to MPI.
  std::int64_t least_before = 0, sent_before = 0, sent = 0;
  for (bool goes_on = true; goes_on;) {
    for (int i = 0; i < 10; ++i) {
      if (ddp.comm_hook() != nullptr) least_before = ddp.comm_hook()->least_bytes();
      sent_before = comm->transport().bytes_sent();
      const auto start = dist::Clock::now();
      step();
      sent = comm->transport().bytes_sent() - sent_before;
      times.push_back(
          std::chrono::duration<double, std::milli>(dist::Clock::now() - start).count());
      total += times.back();
      const auto& t = ddp.timeline();
      waiting += std::chrono::duration<double, std::milli>(t.synchronized - t.backward_end).count();
    }
    goes_on = comm->broadcast_bytes(total < s.seconds * 1e3 ? "1" : "0") == "1";
  }
  if (!s.trace.empty() || !s.profile.empty()) record(s, ddp, trace, step);
  if (comm->rank() == 0) {
    const double ms = bench::median(times);
    nlohmann::json result = {
        {"framework", "rondo"},
        {"model", s.model},
        {"batch", s.batch},
        {"dtype", s.dtype},
        {"amp", s.amp},
        {"device", s.device},
        {"ranks", n},
        {"threads", threads},
        {"overlap", s.overlap},
        {"zero", s.zero},
        {"buckets", ddp.bucket_bytes()},
        {"ms_per_step", ms},
        {"ms_waiting", waiting / static_cast<double>(times.size())},
        {"hook_bytes", ddp.comm_hook() != nullptr ? ddp.comm_hook()->least_bytes() - least_before
                                                  : std::int64_t{0}},
        {"sent_bytes", sent},  // 0 with shared memory, and with MPI's or NCCL's own all-reduce
        {"img_per_s", 1e3 * static_cast<double>(s.batch) / ms}};
    if (s.json != "-")
      std::cout << s.model << ' ' << s.dtype << (s.amp.empty() ? "" : " under autocast to ")
                << s.amp << ", batch " << s.batch << ", " << n << " ranks with " << threads
                << " threads: " << ms << " ms a step, of which rank 0 waits "
                << result["ms_waiting"].get<double>() << " after backward, "
                << result["img_per_s"].get<double>() << " img/s\n";
    bench::write_json(result, s.json);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return dist::run([&] { return program(argc, argv); });
}
