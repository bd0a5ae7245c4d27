// One epoch as a window of slots: batch b uses slot b modulo the window size. Workers take the next
// batch that fits into the window. The loop takes batches in order, which moves the window on.

#include "data/loader.h"

#include <omp.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "tensor/home_process.h"
#include "tensor/record_function.h"

namespace rondo::data {

/// The state of one loop. Batches [handed_, claimed_) are being made or wait in their slots;
/// claimed_ <= handed_ + slots_.size().
class DataLoader::Iterator::Run {
 public:
  Run(const DataLoader& loader, std::int64_t first)
      : dataset_(loader.dataset_),
        transform_(loader.transform_),
        epoch_(loader.batches_->epoch()),
        batches_(loader.batches_->batches()),
        repeats_(loader.batches_->repeats()),
        handed_(first),
        claimed_(first) {
    const std::int64_t left = count() - first;
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
    if (handed_ >= count()) {
      at_end_ = true;
      return false;
    }
    const std::int64_t batch = handed_;
    Slot made;
    if (workers_.empty()) {
      made = make(batch);
      ++handed_;
    } else {
      std::unique_lock lock(mutex_);
      Slot& slot = slots_[static_cast<std::size_t>(batch) % slots_.size()];
      {
        const RecordFunction range("wait for batch", EventKind::data);
        made_.wait(lock, [&] { return slot.ready; });
      }
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
    return true;
  }

  Batch& current() { return current_; }
  bool at_end() const { return at_end_; }
  Position next_position() const { return {epoch_, handed_}; }
  std::span<const std::int64_t> indices() const {
    return batches_[static_cast<std::size_t>(handed_ - 1)];
  }

 private:
  struct Slot {
    Batch batch;
    std::exception_ptr error;
    bool ready = false;
  };

  std::int64_t count() const { return static_cast<std::int64_t>(batches_.size()); }

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
      return renew(mutex_, made_, room_);
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
      std::unique_lock lock(mutex_);
      room_.wait(lock, [&] {
        return stopping_ || claimed_ >= count() ||
               claimed_ < handed_ + static_cast<std::int64_t>(slots_.size());
      });
      if (stopping_ || claimed_ >= count()) return;
      const std::int64_t batch = claimed_++;
      lock.unlock();
      Slot made = make(batch);
      lock.lock();
      slots_[static_cast<std::size_t>(batch) % slots_.size()] = std::move(made);
      lock.unlock();
      made_.notify_one();
    }
  }

  Slot make(std::int64_t batch) const {
    const RecordFunction range("load batch", EventKind::data);
    Slot made;
    made.ready = true;
    const std::span<const std::int64_t> indices = batches_[static_cast<std::size_t>(batch)];
    try {
      Draw draw{epoch_};
      if (!repeats_.empty()) draw.repeats = repeats_[static_cast<std::size_t>(batch)];
      made.batch = dataset_->get_epoch_batch(draw, indices);
      if (transform_) {
        made.batch =
            transform_(std::move(made.batch), {.indices = indices, .draw = draw, .batch = batch});
      }
    } catch (...) {
      made.error = name_batch(batch);
    }
    return made;
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
  const std::uint64_t epoch_;
  const std::vector<Indices> batches_;
  const std::vector<Indices> repeats_;  // for batches_; may be empty

  std::mutex mutex_;  // guards the members from here to stopping_
  std::condition_variable made_, room_;
  std::vector<Slot> slots_;
  std::int64_t handed_, claimed_;
  bool stopping_ = false;

  Batch current_;
  bool at_end_ = false;
  std::vector<std::thread> workers_;
  HomeProcess home_;
};

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<Sampler> sampler,
                       DataLoaderOptions options, Transform transform)
    : DataLoader(
          std::move(dataset),
          std::make_shared<BatchSampler>(std::move(sampler), options.batch_size, options.drop_last),
          {.workers = options.workers, .prefetch = options.prefetch}, std::move(transform)) {}

DataLoader::DataLoader(std::shared_ptr<const Dataset> dataset, std::shared_ptr<BatchSource> batches,
                       DataLoaderOptions options, Transform transform)
    : dataset_(std::move(dataset)),
      batches_(std::move(batches)),
      options_(options),
      transform_(std::move(transform)) {
  require(dataset_ != nullptr && batches_ != nullptr, "DataLoader: no data set or no sampler");
  require(options_.batch_size == 1 && !options_.drop_last,
          "DataLoader: batch_size and drop_last must be set in the batch sampler, not here");
  require(options_.workers >= 0, "DataLoader: workers = ", options_.workers);
  require(options_.prefetch >= 1, "DataLoader: prefetch = ", options_.prefetch);
}

void DataLoader::set_epoch(std::uint64_t epoch, std::int64_t first_batch) {
  require(first_batch >= 0 && first_batch <= size(), "DataLoader: batch ", first_batch,
          " of an epoch of ", size(), " batches");
  first_batch_ = first_batch;
  batches_->set_epoch(epoch);
}

void DataLoader::set_position(Position position) {
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
Position DataLoader::Iterator::next_position() const { return run_->next_position(); }
std::span<const std::int64_t> DataLoader::Iterator::indices() const { return run_->indices(); }

}  // namespace rondo::data
