// SummaryWriter without protobuf: an error that says how to install it.

#include "extras/tensorboard/summary_writer.h"
#include "tensor/error.h"

namespace rondo::io {

SummaryWriter::SummaryWriter(const std::string& folder, const SummaryWriterOptions&) {
  check(folder);
}
void SummaryWriter::check(const std::string& folder) {
  throw Error(concat("TensorBoard's files in ", folder,
                     " cannot be written: rondo was built without protobuf (apt-get install "
                     "libprotobuf-dev protobuf-compiler, and configure again)"));
}
SummaryWriter::~SummaryWriter() = default;
void SummaryWriter::add_scalar(const std::string&, double, std::int64_t) {}
void SummaryWriter::add_histogram(const std::string&, const Tensor&, std::int64_t) {}
void SummaryWriter::add_image(const std::string&, const Tensor&, std::int64_t) {}
void SummaryWriter::add_images(const std::string&, const Tensor&, std::int64_t) {}
void SummaryWriter::add_text(const std::string&, const std::string&, std::int64_t) {}
void SummaryWriter::add_graph(nn::Module&, const Tensor&) {}
void SummaryWriter::flush() {}

}  // namespace rondo::io
