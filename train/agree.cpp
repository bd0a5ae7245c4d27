#include "train/agree.h"

#include <functional>
#include <string>
#include <variant>

namespace rondo::train {

void agree_on_options(const optim::Optimizer& optimizer, const optim::LRSchedule& schedule,
                      const FitData& data, dist::Communicator& comm, const FitOptions& options) {
  const auto agree = [&](const std::string& what, const auto& value) {
    comm.agree(what, concat(value));
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
  agree("checkpoint_dir", options.checkpoint_dir.string());
  agree("checkpoint_every", options.checkpoint_every);
  agree("keep_checkpoints", options.keep_checkpoints);
  agree("async_checkpoints", options.async_checkpoints);
  agree("resume", options.resume);
  agree("trace", options.trace.string());
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
          for (const double value : values) settings += concat(' ', value);
        }
        agree(state.type, settings);
        agree("number of schedules in it", state.children.size());
        for (const optim::ScheduleState& child : state.children) agree_on_schedule(child);
      };
  agree_on_schedule(schedule.state_dict());
}

}  // namespace rondo::train
