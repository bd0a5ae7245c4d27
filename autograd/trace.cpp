// TraceMode, and the attributes of nodes (see trace.h).

#include "autograd/trace.h"

#include "autograd/autograd_meta.h"

namespace rondo {
namespace {

thread_local bool trace_enabled = false;

struct Collector final : AttributeVisitor {
  Attributes found;
  void integer(const char* name, std::int64_t value) override { found[name] = value; }
  void integers(const char* name, const Dims& values) override { found[name] = values; }
  void real(const char* name, double value) override { found[name] = value; }
  void text(const char* name, std::string_view value) override { found[name] = std::string(value); }
  void tensor(const char* name, const Tensor& value) override { found[name] = value; }
};

}  // namespace

bool TraceMode::is_enabled() { return trace_enabled; }
void TraceMode::set_enabled(bool enabled) { trace_enabled = enabled; }

Attributes attributes_of(Node& node) {
  Collector collector;
  node.attributes(collector);
  return std::move(collector.found);
}

void require_traced(const Tensor& x) {
  if (!x.defined() || !x.impl().autograd || !x.impl().autograd->grad_fn) return;
  const AutogradMeta& meta = *x.impl().autograd;
  const Node& node = *meta.grad_fn;
  if (!node.traced) return;
  require<AutogradError>(
      node.traced->output_versions[static_cast<std::size_t>(meta.output)] == x.version(),
      node.name(), node.scope.empty() ? "" : concat(" in ", node.scope), ": its result of shape ",
      x.shape(),
      " was written without recording (through detach(), or under NoGradGuard), so a trace would "
      "miss the write; make it outside of forward, or compute a new tensor");
}

Tensor constant_input(const Node& node, std::size_t i) {
  if (!node.traced || !node.traced->constants[i].defined()) return {};
  const Tensor& constant = node.traced->constants[i];
  require<AutogradError>(
      constant.version() == node.traced->versions[i], node.name(), ": its input of shape ",
      constant.shape(),
      " was modified in place after it was used, so a trace cannot record its value");
  return constant;
}

}  // namespace rondo
