// One epoch as a window of slots: batch b uses slot b modulo the window size. Workers take the next
// batch that fits into the window. The loop takes batches in order, which moves the window on.
// A worker that takes a batch of a stream holds `reading_` until it has read the batch's samples,
// so that batches are read in order. The number of batches is unknown until the stream ends.

#include "data/loader.h"

#include <omp.h>

#include <condition_variable>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>

#include "tensor/home_process.h"
#include "tensor/record_function.h"

namespace rondo::data {
namespace {

/// Counts the epochs of a stream. It has no lists of indices.
class StreamEpochs final : public BatchSource {
 public:
  std::int64_t size() const override {
    throw Error("DataLoader: a stream has no size; count the batches of a loop");
  }
  std::vector<Indices> batches() const override { return {}; }
  void set_epoch(std::uint64_t epoch) override { epoch_.set(epoch); }
  std::uint64_t epoch() const override { return epoch_.now(); }
  void begin_epoch() override { epoch_.begin(); }
  void continue_from(std::uint64_t epoch) override { epoch_.continue_from(epoch); }

 private:
  EpochCounter epoch_;
};

void require_defined(const Batch& batch) {
  require(batch.input.defined() && batch.target.defined(), "the ",
          batch.input.defined() ? "target" : "input",
          " is undefined; a batch needs an input and a target");
}

void require_rows(const Batch& batch, std::int64_t samples) {
  for (const Tensor* part : {&batch.input, &batch.target}) {
    require<ShapeError>(part->dim() > 0 && part->size(0) == samples, "the data set returned ",
                        part == &batch.input ? "an input" : "a target", " of shape ", part->shape(),
                        " for ", samples, " samples, but it must have a row for each");
  }
}

/// Whether the loader itself has to choose an order or a share.
bool has_order(const DataLoaderOptions& options) {
  return options.shuffle || options.seed || options.rank != 0 || options.world_size != 1;
}

std::shared_ptr<Sampler> sampler_of(const Dataset& dataset, const DataLoaderOptions& options) {
  if (options.sampler != nullptr) {
    require(!has_order(options),
            "DataLoader: a sampler decides about the order and the ranks' shares; leave out "
            "shuffle, seed, rank and world_size");
    return options.sampler;
  }
  if (options.world_size != 1 || options.rank != 0)
    return std::make_shared<DistributedSampler>(
        dataset.size(), DistributedSamplerOptions{.rank = options.rank,
                                                  .world_size = options.world_size,
                                                  .shuffle = options.shuffle,
                                                  .seed = options.seed.value_or(0)});
  if (options.shuffle) return std::make_shared<RandomSampler>(dataset.size(), options.seed);
  return std::make_shared<SequentialSampler>(dataset.size());
}

std::shared_ptr<BatchSource> batches_of(const Dataset* dataset, const DataLoaderOptions& options) {
  require(dataset != nullptr, "DataLoader: the data set is null");
  require(options.batch_size > 0, "DataLoader: batch_size = ", options.batch_size,
          ", but must be at least 1");
  if (options.batch_sampler == nullptr)
    return std::make_shared<BatchSampler>(sampler_of(*dataset, options), options.batch_size,
                                          options.drop_last);
  require(options.batch_size == 1 && !options.drop_last && options.sampler == nullptr &&
              !has_order(options),
          "DataLoader: a batch sampler decides about batches, order and shares; leave out "
          "batch_size, shuffle, sampler, drop_last, seed, rank and world_size");
  return options.batch_sampler;
}

DataLoaderOptions with_sampler(DataLoaderOptions options, std::shared_ptr<Sampler> sampler) {
  require(sampler != nullptr && options.sampler == nullptr,
          "DataLoader: ", sampler == nullptr ? "the sampler is null" : "two samplers");
  options.sampler = std::move(sampler);
  return options;
}

DataLoaderOptions with_batches(DataLoaderOptions options, std::shared_ptr<BatchSource> batches) {
  require(batches != nullptr && options.batch_sampler == nullptr,
          "DataLoader: ", batches == nullptr ? "the batch sampler is null" : "two batch samplers");
  options.batch_sampler = std::move(batches);
  return options;
}

}  // namespace

Transform for_each_sample(std::function<Sample(Sample)> f) {
  return Transform([f = std::move(f)](const Batch& batch, const BatchContext& context) {
    std::vector<Sample> samples = rows_of(batch);
    for (Sample& sample : samples) sample = f(std::move(sample));
    return default_collate(samples, context.indices);
  });
}

Transform compose(std::vector<Transform> transforms) {
  for (const Transform& transform : transforms)
    require(transform != nullptr, "compose: one of the transforms is empty");
  return [transforms = std::move(transforms)](Batch batch, const BatchContext& context) -> Batch {
    for (const Transform& transform : transforms) batch = transform(std::move(batch), context);
    return batch;
  };
}

/// The state of one loop. Batches [handed_, claimed_) are being made or wait in their slots;
/// claimed_ <= handed_ + slots_.size(). Batches from count_ on do not exist.
class DataLoader::Iterator::Run {
 public:
  Run(const DataLoader& loader, std::int64_t first)
      : dataset_(loader.dataset_),
        transform_(loader.transform_),
        collate_(loader.options_.collate_fn),
        batch_size_(loader.options_.batch_size),
        drop_last_(loader.options_.drop_last),
        epoch_(loader.batches_->epoch()),
        batches_(loader.batches_->batches()),
        repeats_(loader.batches_->repeats()),
        count_(loader.stream_ == nullptr ? std::ssize(batches_)
                                         : std::numeric_limits<std::int64_t>::max()),
        handed_(first),
        claimed_(first) {
    if (loader.stream_ != nullptr) open(*loader.stream_, first);
    const std::int64_t left = count_ - first;
    const auto workers = std::min<std::int64_t>(loader.options_.workers, left);
    slots_.resize(static_cast<std::size_t>(std::max<std::int64_t>(workers, 0)) *
                  static_cast<std::size_t>(loader.options_.prefetch));
    try {
      for (std::int64_t i = 0; i < workers; ++i) workers_.emplace_back([this] { work(); });
    } catch (...) {
      stop();
      throw;
    }
  }
  ~Run() { stop(); }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  /// Waits for the next batch and takes it out of its slot. Returns false after the last one.
  bool advance() {
    current_ = {};
    Slot made;
    if (workers_.empty()) {
      if (handed_ < count_) made = read(handed_);
      if (handed_ >= count_) return end();
      make(handed_++, made);
    } else {
      std::unique_lock lock(mutex_);
      const std::int64_t batch = handed_;
      if (batch >= count_) return end();
      Slot& slot = slots_[static_cast<std::size_t>(batch) % slots_.size()];
      {
        const RecordFunction range("wait for batch", EventKind::data);
        made_.wait(lock, [&] { return slot.ready || batch >= count_; });
      }
      if (!slot.ready) return end();  // the stream has ended
      made = std::move(slot);
      slot = {};
      ++handed_;
      lock.unlock();
      room_.notify_one();
    }
    if (made.error) {
      end_early();
      std::rethrow_exception(made.error);
    }
    current_ = std::move(made.batch);
    indices_ = std::move(made.indices);
    return true;
  }

  Batch& current() { return current_; }
  bool at_end() const { return at_end_; }
  LoaderPosition next_position() const { return {epoch_, handed_}; }
  std::span<const std::int64_t> indices() const { return indices_; }

 private:
  struct Slot {
    Indices indices;
    std::vector<Sample> samples;  // of a stream, until they are collated
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  bool end() {
    at_end_ = true;
    return false;
  }

  /// After an error the loop ends.
  void end_early() {
    stop();
    at_end_ = true;
  }

  void stop() {
    if (!home_.is_here()) {
      for (auto& worker : workers_) {
        if (worker.joinable()) worker.detach();
      }
      return renew(reading_, mutex_, made_, room_);
    }
    {
      std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    room_.notify_all();
    for (auto& worker : workers_) {
      if (worker.joinable()) worker.join();
    }
  }

  void work() {
    omp_set_num_threads(1);  // applies to this thread only
    set_thread_name("data loader");
    for (;;) {
      std::unique_lock in_order(reading_, std::defer_lock);
      if (next_) in_order.lock();
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] {
        return stopping_ || claimed_ >= count_ ||
               claimed_ < handed_ + static_cast<std::int64_t>(slots_.size());
      });
      if (stopping_ || claimed_ >= count_) return;
      const std::int64_t batch = claimed_++;
      lock.unlock();
      Slot made = read(batch);
      if (in_order.owns_lock()) in_order.unlock();
      if (made.indices.empty() && !made.error && next_) return;  // the stream has ended
      make(batch, made);
      lock.lock();
      slots_[static_cast<std::size_t>(batch) % slots_.size()] = std::move(made);
      lock.unlock();
      made_.notify_one();
    }
  }

  void open(const IterableDataset& stream, std::int64_t first_batch) {
    try {
      next_ = stream.open_at(epoch_, first_batch * batch_size_);
      require(next_ != nullptr, "IterableDataset::open returned an empty function");
    } catch (...) {
      std::rethrow_exception(name_batch(first_batch));
    }
  }

  /// The indices of a batch, or the samples that a stream has for it. If the stream has no such
  /// batch, the slot is empty.
  Slot read(std::int64_t batch) {
    Slot made;
    if (!next_) {
      made.indices = batches_[static_cast<std::size_t>(batch)];
      return made;
    }
    const RecordFunction range("read stream", EventKind::data);
    bool ended = false;
    try {
      for (std::int64_t i = 0; i < batch_size_ && !ended; ++i) {
        std::optional<Sample> sample = next_();
        ended = !sample.has_value();
        if (ended) break;
        made.samples.push_back(std::move(*sample));
        made.indices.push_back(batch * batch_size_ + i);
      }
    } catch (...) {
      made.error = name_batch(batch);
    }
    if (ended && drop_last_) made = {};
    if (ended || made.error) {
      {
        const std::lock_guard lock(mutex_);
        count_ = made.samples.empty() && !made.error ? batch : batch + 1;
      }
      made_.notify_one();
    }
    return made;
  }

  /// Makes the batch of what was read.
  void make(std::int64_t batch, Slot& made) const {
    const RecordFunction range("load batch", EventKind::data);
    made.ready = true;
    if (made.error) return;
    try {
      Draw draw{epoch_};
      if (!repeats_.empty()) draw.repeats = repeats_[static_cast<std::size_t>(batch)];
      if (next_)
        made.batch = collate_ ? collate_(std::move(made.samples))
                              : default_collate(made.samples, made.indices);
      else
        made.batch = collate_ ? collate_(dataset_->get_samples(draw, made.indices))
                              : dataset_->get_epoch_batch(draw, made.indices);
      made.samples.clear();
      require_defined(made.batch);
      if (!collate_) require_rows(made.batch, std::ssize(made.indices));
      if (transform_) {
        made.batch = transform_(std::move(made.batch),
                                {.indices = made.indices, .draw = draw, .batch = batch});
        require_defined(made.batch);
      }
    } catch (...) {
      made.error = name_batch(batch);
    }
  }

  /// The exception being handled, with the number of the batch before its message.
  std::exception_ptr name_batch(std::int64_t batch) const {
    const std::string where = concat("data loader, batch ", batch, " of epoch ", epoch_, ": ");
    try {
      throw;
    } catch (const ShapeError& error) {
      return std::make_exception_ptr(ShapeError(where + error.what()));
    } catch (const DTypeError& error) {
      return std::make_exception_ptr(DTypeError(where + error.what()));
    } catch (const DeviceError& error) {
      return std::make_exception_ptr(DeviceError(where + error.what()));
    } catch (const IoError& error) {
      return std::make_exception_ptr(IoError(where + error.what()));
    } catch (const std::exception& error) {
      return std::make_exception_ptr(Error(where + error.what()));
    } catch (...) {
      return std::make_exception_ptr(Error(where + "an exception that is not a std::exception"));
    }
  }

  const std::shared_ptr<const Dataset> dataset_;
  const Transform transform_;
  const Collate collate_;
  const std::int64_t batch_size_;
  const bool drop_last_;
  const std::uint64_t epoch_;
  const std::vector<Indices> batches_;
  const std::vector<Indices> repeats_;  // for batches_; may be empty

  std::mutex reading_;          // held before mutex_; guards next_
  IterableDataset::Next next_;  // empty: not a stream

  std::mutex mutex_;  // guards the members from here to stopping_
  std::condition_variable made_, room_;
  std::vector<Slot> slots_;
  std::int64_t count_, handed_, claimed_;
  bool stopping_ = false;

  Batch current_;
  Indices indices_;
  bool at_end_ = false;
  std::vector<std::thread> workers_;
  HomeProcess home_;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options,
                       Transform transform)
    : dataset_(std::move(dataset)),
      batches_(batches_of(dataset_.get(), options)),
      options_(std::move(options)),
      transform_(std::move(transform)) {
  check();
}

DataLoader::DataLoader(std::shared_ptr<const IterableDataset> stream, DataLoaderOptions options,
                       Transform transform)
    : stream_(std::move(stream)),
      batches_(std::make_shared<StreamEpochs>()),
      options_(std::move(options)),
      transform_(std::move(transform)) {
  require(stream_ != nullptr, "DataLoader: the stream is null");
  require(options_.batch_size > 0, "DataLoader: batch_size = ", options_.batch_size,
          ", but must be at least 1");
  require(!has_order(options_) && options_.sampler == nullptr && options_.batch_sampler == nullptr,
          "DataLoader: a stream decides about the order and the ranks' shares; leave out shuffle, "
          "sampler, batch_sampler, seed, rank and world_size");
  check();
}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<Sampler> sampler,
                       DataLoaderOptions options, Transform transform)
    : DataLoader(std::move(dataset), with_sampler(std::move(options), std::move(sampler)),
                 std::move(transform)) {}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<BatchSource> batches,
                       DataLoaderOptions options, Transform transform)
    : DataLoader(std::move(dataset), with_batches(std::move(options), std::move(batches)),
                 std::move(transform)) {}

void DataLoader::check() const {
  require(options_.workers >= 0, "DataLoader: workers = ", options_.workers,
          ", but must not be negative");
  require(options_.prefetch >= 1, "DataLoader: prefetch = ", options_.prefetch,
          ", but must be at least 1");
}

const Dataset& DataLoader::dataset() const {
  require(dataset_ != nullptr, "DataLoader: a stream is not a Dataset");
  return *dataset_;
}

void DataLoader::set_epoch(std::uint64_t epoch, std::int64_t first_batch) {
  require(first_batch >= 0, "DataLoader: batch ", first_batch, " is below 0");
  if (stream_ == nullptr)
    require(first_batch <= size(), "DataLoader: batch ", first_batch, " of an epoch of ", size(),
            " batches");
  first_batch_ = first_batch;
  batches_->set_epoch(epoch);
}

void DataLoader::set_position(LoaderPosition position) {
  set_epoch(position.epoch, position.batch);
  batches_->continue_from(position.epoch);
}

DataLoader::Iterator DataLoader::begin() {
  batches_->begin_epoch();
  const std::int64_t first = std::exchange(first_batch_, 0);
  Iterator iterator(std::make_unique<Iterator::Run>(*this, first));
  ++iterator;
  return iterator;
}

DataLoader::Iterator::Iterator(std::unique_ptr<Run> run) : run_(std::move(run)) {}
DataLoader::Iterator::Iterator(Iterator&&) noexcept = default;
DataLoader::Iterator& DataLoader::Iterator::operator=(Iterator&&) noexcept = default;
DataLoader::Iterator::~Iterator() = default;

Batch& DataLoader::Iterator::operator*() const { return run_->current(); }
DataLoader::Iterator& DataLoader::Iterator::operator++() {
  run_->advance();
  return *this;
}
bool DataLoader::Iterator::operator==(std::default_sentinel_t) const { return run_->at_end(); }
LoaderPosition DataLoader::Iterator::next_position() const { return run_->next_position(); }
std::span<const std::int64_t> DataLoader::Iterator::indices() const { return run_->indices(); }

}  // namespace rondo::data
