#include "dist/data_parallel/comm_hook.h"

#include <charconv>

#include "dist/data_parallel/hooks/cast.h"
#include "dist/data_parallel/hooks/int8.h"
#include "dist/data_parallel/hooks/power_sgd.h"
#include "dist/data_parallel/hooks/sign.h"
#include "dist/data_parallel/hooks/top_k.h"
#include "tensor/error.h"

namespace rondo::dist {
namespace {

/// The number after the colon of "topk:0.01", or `otherwise`.
template <class T>
T number_in(const std::string& text, T otherwise) {
  const auto colon = text.find(':');
  if (colon == std::string::npos) return otherwise;
  T value{};
  const char *first = text.data() + colon + 1, *last = text.data() + text.size();
  const auto [end, error] = std::from_chars(first, last, value);
  require<CommError>(error == std::errc() && end == last, "comm hook \"", text, "\": \"",
                     std::string(first, last), "\" is not a number");
  return value;
}

}  // namespace

Work CommHook::all_reduce(Communicator& comm, const Tensor& x, ReduceOp op) {
  const std::int64_t n = comm.world_size();
  least_bytes_ += 2 * (n - 1) * x.nbytes() / n;
  return comm.all_reduce_async(x, op);
}
Work CommHook::reduce_scatter(Communicator& comm, const Tensor& out, const Tensor& x) {
  least_bytes_ += (comm.world_size() - 1) * out.nbytes();
  return comm.reduce_scatter_async(out, x, ReduceOp::avg);
}
Work CommHook::all_gather(Communicator& comm, const Tensor& out, const Tensor& x) {
  least_bytes_ += (comm.world_size() - 1) * x.nbytes();
  return comm.all_gather_async(out, x);
}
Work CommHook::all_to_all(Communicator& comm, const Tensors& from, const Tensors& to) {
  for (std::size_t r = 0; r < to.size(); ++r) {
    if (static_cast<int>(r) != comm.rank()) least_bytes_ += to[r].nbytes();
  }
  return comm.all_to_all_async(from, to);
}

void CommHook::remember(const char* name, const GradBucket& bucket, const Tensor& tensor) {
  state_.push_back({concat(name, '.', bucket.index), tensor});
}

void CommHook::require_f32_on_cpu(const GradBucket& bucket) const {
  const Tensor& flat = bucket.flat;
  require<DeviceError>(flat.device().is_cpu(), name(), ": the gradients are on ", flat.device(),
                       "; on a GPU use fp16, bf16, topk or powersgd");
  require<DTypeError>(flat.dtype() == f32, name(), ": gradients of ", flat.dtype(),
                      "; it supports only f32");
}

std::shared_ptr<CommHook> make_comm_hook(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  const bool has_number = name != text;
  if (name == "topk") return std::make_shared<TopKHook>(number_in(text, 0.01));
  if (name == "powersgd")
    return std::make_shared<PowerSgdHook>(PowerSgdOptions{.rank = number_in(text, 2)});
  require<CommError>(
      !has_number || (name != "fp16" && name != "bf16" && name != "sign" && name != "int8"),
      "comm hook \"", text, "\": ", name, " takes no number");
  if (name == "fp16") return std::make_shared<CastHook>(f16);
  if (name == "bf16") return std::make_shared<CastHook>(bf16);
  if (name == "sign") return std::make_shared<SignHook>();
  if (name == "int8") return std::make_shared<Int8Hook>();
  throw CommError(concat("unknown comm hook \"", text,
                         "\"; use one of fp16, bf16, topk[:RATIO], powersgd[:RANK], sign, int8"));
}

}  // namespace rondo::dist
