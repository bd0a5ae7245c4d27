#include "extras/tensorboard/summary_writer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <vector>

#include "autograd/ops/arithmetic.h"
#include "autograd/ops/reduce.h"
#include "autograd/ops/shape.h"
#include "autograd/ops/unary.h"
#include "io/atomic_file.h"
#include "io/encode_png.h"
#include "nn/graph.h"
#include "tensor/creation.h"
#include "tensor/error.h"
#include "tensor/printable.h"
#include "tensorboard.pb.h"

namespace rondo::io {
namespace {

using tensorboard::Event;

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Event event_at(std::int64_t step) {
  Event event;
  event.set_wall_time(now());
  event.set_step(step);
  return event;
}

tensorboard::Summary::Value& value_of(Event& event, const std::string& tag) {
  require(!tag.empty(), "SummaryWriter: the tag is empty");
  auto& value = *event.mutable_summary()->add_value();
  value.set_tag(printable(tag));  // TensorBoard refuses a file with other bytes than UTF-8
  return value;
}

/// … -1.1e-12, -1e-12, 0, 1e-12, 1.1e-12 … up to 1e20.
const std::vector<double>& bucket_edges() {
  static const std::vector<double> edges = [] {
    std::vector<double> positive;
    for (double edge = 1e-12; edge < 1e20; edge *= 1.1) positive.push_back(edge);
    std::vector<double> all;
    std::transform(positive.rbegin(), positive.rend(), std::back_inserter(all), std::negate<>());
    all.push_back(0);
    all.insert(all.end(), positive.begin(), positive.end());
    return all;
  }();
  return edges;
}

/// x's finite elements in ascending order.
std::vector<double> sorted_values(const Tensor& x) {
  const Tensor flat = x.detach().to(Device::cpu()).to(f64).contiguous();
  const double* data = flat.data_ptr<double>();
  std::vector<double> values;
  std::copy_if(data, data + flat.numel(), std::back_inserter(values),
               [](double v) { return std::isfinite(v); });
  std::sort(values.begin(), values.end());
  return values;
}

tensorboard::Histogram histogram_of(const std::vector<double>& values) {
  tensorboard::Histogram histogram;
  histogram.set_min(values.front());
  histogram.set_max(values.back());
  histogram.set_num(static_cast<double>(values.size()));
  histogram.set_sum(std::accumulate(values.begin(), values.end(), 0.0));
  histogram.set_sum_squares(std::inner_product(values.begin(), values.end(), values.begin(), 0.0));
  // Bucket i is [edge i, edge i + 1); the outermost ones also count everything beyond. Only the
  // buckets from the first to the last with a value are kept, and an empty one before them, whose
  // end is their start.
  const std::vector<double>& edges = bucket_edges();
  const auto bucket_of = [&](double value) {
    const auto after = std::upper_bound(edges.begin(), edges.end(), value) - edges.begin();
    return std::clamp<std::int64_t>(after - 1, 0, static_cast<std::int64_t>(edges.size()) - 2);
  };
  const std::int64_t first = bucket_of(values.front()), last = bucket_of(values.back());
  histogram.add_bucket_limit(edges[static_cast<std::size_t>(first)]);
  histogram.add_bucket(0);
  for (std::int64_t i = first; i <= last; ++i) {
    histogram.add_bucket_limit(edges[static_cast<std::size_t>(i) + 1]);
    histogram.add_bucket(0);
  }
  for (const double value : values) {
    const int i = static_cast<int>(bucket_of(value) - first) + 1;
    histogram.set_bucket(i, histogram.bucket(i) + 1);
  }
  return histogram;
}

/// (C, H, W) u8, contiguous on the CPU.
Tensor pixels_of(const std::string& tag, const Tensor& image) {
  Tensor x = image.detach().to(Device::cpu());
  if (x.dim() == 2) x = x.unsqueeze(0);
  require<ShapeError>(x.dim() == 3 && (x.size(0) == 1 || x.size(0) == 3) && x.numel() > 0,
                      "SummaryWriter: image ", tag, " is ", image.shape(),
                      ", but must be (H, W), (1, H, W) or (3, H, W)");
  if (x.dtype() == u8) return x.contiguous();
  require<DTypeError>(is_floating(x.dtype()), "SummaryWriter: image ", tag, " is ", x.dtype(),
                      ", but must be u8 or floating");
  const Tensor scaled = clamp(x.to(f32).contiguous(), 0, 1) * 255;
  require(!any(isnan(scaled)).item<bool>(), "SummaryWriter: image ", tag, " has NaN in it");
  return scaled.to(u8);
}

/// (N, C, H, W) as (C, rows H, columns W).
Tensor grid_of(const std::string& tag, const Tensor& images) {
  require<ShapeError>(images.dim() == 4 && images.numel() > 0, "SummaryWriter: images ", tag,
                      " are ", images.shape(), ", but must be (N, C, H, W)");
  const std::int64_t n = images.size(0), height = images.size(2), width = images.size(3);
  const std::int64_t columns = std::min<std::int64_t>(n, 8), rows = (n + columns - 1) / columns;
  Tensor grid = zeros({images.size(1), rows * height, columns * width},
                      {.dtype = images.dtype(), .device = images.device()});
  for (std::int64_t i = 0; i < n; ++i)
    grid.narrow(1, i / columns * height, height)
        .narrow(2, i % columns * width, width)
        .copy_(images.select(0, i).detach());
  return grid;
}

/// Masks a checksum, so that it is not confused with that of a record that contains checksums.
std::uint32_t masked(std::uint32_t crc) { return ((crc >> 15) | (crc << 17)) + 0xa282ead8u; }

std::filesystem::path new_file_name(const std::filesystem::path& folder) {
  static std::atomic<int> made = 0;
  std::array<char, 256> host{};
  if (gethostname(host.data(), host.size() - 1) != 0) host = {"localhost"};
  return folder / concat("events.out.tfevents.", static_cast<std::int64_t>(now()), ".", host.data(),
                         ".", getpid(), ".", made++);
}

/// "layer1.0.conv1" as TensorBoard writes scopes.
std::string with_slashes(std::string name) {
  std::replace(name.begin(), name.end(), '.', '/');
  return name;
}

}  // namespace

SummaryWriter::SummaryWriter(const std::string& folder, const SummaryWriterOptions& options)
    : path_(new_file_name(folder)) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  require<IoError>(!error, folder, ": cannot be created: ", error.message());
  file_.emplace(path_, OwnFile::Mode::create);
  Event version = event_at(0);
  version.set_file_version("brain.Event:2");
  write(version.SerializeAsString());
  if (options.purge_step) {
    Event start = event_at(*options.purge_step);
    start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
    write(start.SerializeAsString());
  }
}

SummaryWriter::~SummaryWriter() = default;

void SummaryWriter::check(const std::string& folder) { require_writable_folder(folder); }

void SummaryWriter::add_scalar(const std::string& tag, double value, std::int64_t step) {
  Event event = event_at(step);
  value_of(event, tag).set_simple_value(static_cast<float>(value));
  write(event.SerializeAsString());
}

void SummaryWriter::add_histogram(const std::string& tag, const Tensor& x, std::int64_t step) {
  const std::vector<double> values = sorted_values(x);
  require(!values.empty(), "SummaryWriter: histogram ", tag, " of no finite elements");
  Event event = event_at(step);
  *value_of(event, tag).mutable_histo() = histogram_of(values);
  write(event.SerializeAsString());
}

void SummaryWriter::add_image(const std::string& tag, const Tensor& image, std::int64_t step) {
  const Tensor pixels = pixels_of(tag, image);
  Event event = event_at(step);
  tensorboard::Summary::Image& picture = *value_of(event, tag).mutable_image();
  picture.set_height(static_cast<int>(pixels.size(1)));
  picture.set_width(static_cast<int>(pixels.size(2)));
  picture.set_colorspace(static_cast<int>(pixels.size(0)));
  picture.set_encoded_image_string(encode_png(pixels));
  write(event.SerializeAsString());
}

void SummaryWriter::add_images(const std::string& tag, const Tensor& images, std::int64_t step) {
  add_image(tag, grid_of(tag, images), step);
}

void SummaryWriter::add_text(const std::string& tag, const std::string& text, std::int64_t step) {
  constexpr int strings = 7;
  Event event = event_at(step);
  // TensorBoard expects texts under this name.
  tensorboard::Summary::Value& value = value_of(event, tag.empty() ? tag : tag + "/text_summary");
  value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
  value.mutable_tensor()->set_dtype(strings);
  value.mutable_tensor()->mutable_tensor_shape()->add_dim()->set_size(1);
  value.mutable_tensor()->add_string_val(text);
  write(event.SerializeAsString());
}

void SummaryWriter::add_graph(nn::Module& model, const Tensor& input) {
  tensorboard::GraphDef graph;
  graph.mutable_versions()->set_producer(22);  // the version of the GraphDef format
  for (const nn::GraphNode& from : nn::graph_of(model, input)) {
    tensorboard::GraphDef::Node& node = *graph.add_node();
    node.set_name(with_slashes(from.name));
    node.set_op(from.op);
    for (const std::string& name : from.inputs) node.add_input(with_slashes(name));
    auto& shapes = *(*node.mutable_attr())["_output_shapes"].mutable_list();
    for (const Dims& sizes : from.shapes) {
      auto& shape = *shapes.add_shape();
      for (const std::int64_t size : sizes) shape.add_dim()->set_size(size);
    }
  }
  Event event = event_at(0);
  event.set_graph_def(graph.SerializeAsString());
  write(event.SerializeAsString());
}

void SummaryWriter::write(const std::string& event) {
  const std::uint64_t length = event.size();
  const std::uint32_t of_length = masked(crc32c(&length, sizeof(length)));
  const std::uint32_t of_event = masked(crc32c(event.data(), event.size()));
  std::string record;  // little-endian, like all machines that rondo supports
  record.append(reinterpret_cast<const char*>(&length), sizeof(length));
  record.append(reinterpret_cast<const char*>(&of_length), sizeof(of_length));
  record += event;
  record.append(reinterpret_cast<const char*>(&of_event), sizeof(of_event));
  file_->write(record);
}

void SummaryWriter::flush() {}

std::uint32_t crc32c(const void* data, std::size_t bytes) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> t{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      t[i] = i;
      for (int bit = 0; bit < 8; ++bit) t[i] = (t[i] >> 1) ^ (t[i] & 1 ? 0x82f63b78u : 0);
    }
    return t;
  }();
  std::uint32_t crc = ~0u;
  const auto* at = static_cast<const unsigned char*>(data);
  for (std::size_t i = 0; i < bytes; ++i) crc = (crc >> 8) ^ table[(crc ^ at[i]) & 0xff];
  return ~crc;
}

}  // namespace rondo::io
