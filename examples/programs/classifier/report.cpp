// Collects the contents of --report (extras/report/report.h).
#include "report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <locale>

#include "dist/launch/host.h"
#include "extras/report/report.h"
#include "flags.h"
#include "io/encode_png.h"
#include "tensor/cuda.h"
#include "tensor/version.h"
#include "train/progress_bar.h"

namespace examples {

namespace rd = rondo;
namespace nn = rondo::nn;

namespace {

/// Prints 1234567 as 1,234,567 in every locale.
struct Grouped : std::numpunct<char> {
  char do_thousands_sep() const override { return ','; }
  std::string do_grouping() const override { return "\3"; }
};

/// The processor's name, such as "AMD EPYC 9654 96-Core Processor"; empty if /proc/cpuinfo has
/// none.
std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name") && line.find(": ") != line.npos)
      return line.substr(line.find(": ") + 2);
  return "";
}

std::vector<std::pair<std::string, std::string>> environment(const Flags& flags, rd::Device device,
                                                             const rd::dist::Communicator& comm,
                                                             int threads) {
  std::vector<std::pair<std::string, std::string>> all = {
      {"rondo",
       rd::concat(RONDO_VERSION_MAJOR, '.', RONDO_VERSION_MINOR, '.', RONDO_VERSION_PATCH)},
      {"finished",
       fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(std::chrono::system_clock::to_time_t(
                                                   std::chrono::system_clock::now())))},
      {"machine of rank 0", rd::dist::host_name()},
      {"processor", processor()},
      {"ranks", rd::concat(comm.world_size(), " (", comm.backend(), ')')},
      {"threads of each rank", rd::concat(threads)},
      {"device", device.is_cuda() ? rd::cuda::description(device.index) : "cpu"},
      {"checkpoints", flags.checkpoint_dir}};
  std::erase_if(all, [](const auto& pair) { return pair.second.empty(); });
  return all;
}

std::vector<std::pair<std::string, std::string>> results(const rd::train::FitResult& result,
                                                         nn::Module& model) {
  const auto percent = [](double share) { return fmt::format("{:.2f} %", 100 * share); };
  std::vector<std::pair<std::string, std::string>> all = {
      {"test accuracy", percent(result.test.accuracy())},
      {"best of all epochs", percent(result.best_test_accuracy)},
      {"test loss", fmt::format("{:.4f}", result.test.loss)},
      {"training loss", fmt::format("{:.4f}", result.final_loss)},
      {"epochs", rd::concat(result.epochs)}};
  if (result.img_per_s > 0)
    all.emplace_back("training images/s", fmt::format("{:.0f}", result.img_per_s));
  all.emplace_back("parameters", fmt::format(std::locale(std::locale::classic(), new Grouped),
                                             "{:L}", model.num_parameters()));
  return all;
}

}  // namespace

void write_report_of(const Flags& flags, nn::Module& model, const rd::data::ImageDataset& test,
                     const rd::data::Transform& transform, const rd::train::FitResult& result,
                     rd::dist::Communicator& comm, int threads) {
  rd::train::Report report{.title = flags.model + " on " + flags.dataset};
  const auto images = std::make_shared<rd::data::ImageDataset>(test);
  report.judgement = rd::train::judge(model, images, transform, comm);
  if (comm.rank() != 0) return;
  report.results = results(result, model);
  report.configuration = listed(flags);
  report.environment = environment(flags, rd::train::device_of(model), comm, threads);
  report.epochs = rd::train::read_metrics(flags.checkpoint_dir + "/metrics.jsonl");
  report.steps = result.steps;
  report.class_names = test.class_names();
  for (const rd::train::Judged& judged : report.judgement.worst)
    if (test.channels() == 1 || test.channels() == 3)
      report.pictures.push_back(
          rd::io::encode_png(test.images().select(0, judged.index).contiguous()));
  report.profile = result.profile;
  report.world_size = comm.world_size();
  report.overlap = result.overlap;
  rd::train::write_report(flags.report, report);
}

}  // namespace examples
