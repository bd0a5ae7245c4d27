#include "train/agree.h"

#include <fmt/format.h>

#include <functional>
#include <set>
#include <string>
#include <type_traits>
#include <variant>

#include "train/gradient_sync.h"

namespace rondo::train {
namespace {

/// An optimizer of another model would train nothing here, without an error.
void check_optimizer(const optim::Optimizer& optimizer, nn::Module& model) {
  std::set<const TensorImpl*> own;
  for (const Tensor& parameter : model.parameters()) own.insert(&parameter.impl());
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
    const Tensors& parameters = optimizer.params(group);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      // ZeRO's pieces of a parameter belong to it.
      const TensorImpl& impl = parameters[i].impl();
      require(own.contains(&impl) || own.contains(impl.constant_base.lock().get()),
              "fit: parameter ", i, " of the optimizer's group ", group, ", of shape ",
              parameters[i].shape(),
              ", is not a parameter of the model; make the optimizer from the parameters of the "
              "model that is trained");
    }
  }
}

}  // namespace

void check_options(const FitOptions& options, const FitData& data, nn::Module& model,
                   const optim::Optimizer& optimizer) {
  require(options.epochs > 0, "fit: epochs is ", options.epochs, ", but must be positive");
  check_sync_options(options, model);
  steps_of(1, options.accumulate_grad_batches);  // throws
  require(data.train_images > 0 && data.train.size() > 0, "fit: the training data is empty");
  require(data.test == nullptr || data.test->size() > 0,
          "fit: the test data is empty; leave it out to train without an evaluation");
  require(options.profile_steps >= 0, "fit: profile_steps is ", options.profile_steps,
          ", but must not be negative");
  require(options.max_grad_norm >= 0, "fit: max_grad_norm is ", options.max_grad_norm,
          ", but must not be negative");
  require(options.ema_decay >= 0 && options.ema_decay < 1, "fit: ema_decay is ", options.ema_decay,
          ", but must be in [0, 1)");
  require(options.ema_decay == 0 || options.sync == Sync::ddp,
          "fit: ema_decay cannot be combined with parameter averaging: the ranks' averages would "
          "differ");
  check_optimizer(optimizer, model);
  require(!options.resume || !options.checkpoint_dir.empty(),
          "fit: resume needs checkpoint_dir, which is empty");
  require<DeviceError>(!options.graph || device_of(model).is_cuda(),
                       "fit: a graph is captured on a GPU, but the model is on the CPU");
}

void agree_on_options(const optim::Optimizer& optimizer, const optim::LRSchedule& schedule,
                      const FitData& data, dist::Communicator& comm, const FitOptions& options) {
  // Numbers with all digits.
  const auto text = []<class T>(const T& value) {
    if constexpr (std::is_floating_point_v<T>) return fmt::format("{}", value);
    return concat(value);
  };
  const auto agree = [&](const std::string& what, const auto& value) {
    comm.agree(what, text(value));
  };
  agree("epochs", options.epochs);
  agree("sync", options.sync == Sync::ddp ? "ddp" : "average");
  agree("zero", options.zero);
  agree("accumulate_grad_batches", options.accumulate_grad_batches);
  agree("join", options.join);
  agree("train_metrics", options.train_metrics);
  agree("max_grad_norm", options.max_grad_norm);
  agree("ema_decay", options.ema_decay);
  agree("amp", options.amp ? concat(*options.amp) : "off");
  agree("graph", options.graph);
  std::string metrics;
  for (const auto& metric : options.metrics)
    metrics += concat(metrics.empty() ? "" : ", ", metric.name);
  agree("metrics", metrics);
  agree("checkpoint_dir", options.checkpoint_dir);
  agree("checkpoint_every", options.checkpoint_every);
  agree("keep_checkpoints", options.keep_checkpoints);
  agree("async_checkpoints", options.async_checkpoints);
  agree("resume", options.resume);
  agree("trace", options.trace);
  std::string settings;
  for (const auto& entry : options.config)
    settings += concat(settings.empty() ? "" : ", ", entry.first);
  agree("config entries", settings);
  for (const auto& [key, value] : options.config)
    std::visit([&, &name = key](const auto& v) { agree(name, v); }, value);
  agree("training images", data.train_images);
  agree("batch_size", data.batch_size);
  agree("test images", data.test != nullptr ? data.test->size() : 0);
  agree("optimizer", optimizer.type());
  agree("number of parameter groups", optimizer.num_groups());
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    agree("learning rate", optimizer.lr(group));
  for (const auto& group : optimizer.state_dict().groups)
    for (const auto& [name, value] : group.options) agree(concat("optimizer's ", name), value);
  const std::function<void(const optim::ScheduleState&)> agree_on_schedule =
      [&](const optim::ScheduleState& state) {
        std::string settings;
        for (const auto& [name, values] : state.values) {
          settings += concat(' ', name);
          for (const double value : values) settings += ' ' + text(value);
        }
        agree(state.type, settings);
        agree("number of schedules in it", state.children.size());
        for (const optim::ScheduleState& child : state.children) agree_on_schedule(child);
      };
  agree_on_schedule(schedule.state_dict());
}

}  // namespace rondo::train
