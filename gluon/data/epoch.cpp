#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/engine/pending_wait.h>
#include <sluice/gluon/data/batch_reading.h>
#include <sluice/gluon/data/epoch.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>

namespace sluice::gluon::data {

namespace {

NDArray empty_batch(std::size_t samples, const ArraySpec& spec, Device device) {
  Shape shape = spec.shape;
  shape.insert(0, static_cast<std::int64_t>(samples));
  return empty(shape, {.dtype = spec.dtype, .device = cpu(), .pinned = device.is_gpu()});
}

NDArray moved(const NDArray& host, Device device, SourceLocation site) {
  if (device.is_cpu())
    return host;
  NDArray there = empty(host.shape(), {.dtype = host.dtype(), .device = device});
  copy_into(host, there, site);
  return there;
}

Batch batch_of(std::vector<NDArray> arrays) {
  Batch batch{.count = arrays.size()};
  if (!arrays.empty())
    batch.data = std::move(arrays[0]);
  if (arrays.size() > 1)
    batch.label = std::move(arrays[1]);
  for (std::size_t i = 2; i < arrays.size(); ++i)
    batch.more.push_back(std::move(arrays[i]));
  return batch;
}

/// Told of the end of a wait.
class TimedWait final : public WaitObserver {
 public:
  void complete(std::exception_ptr /*error*/) noexcept override {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
    ended_.notify_all();  // with the lock: who waits destroys this
  }
  bool within(std::chrono::duration<double> time) {
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, time, [this] { return is_over_; });
  }
  void wait() {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return is_over_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
};

using Entry = detail::Ledger::Entry;
using Fate = detail::Ledger::Fate;

// Makes a batch, unless it was dropped; then it is no error either.
template <class Make>
void make_unless_dropped(Entry& entry, const Make& make) {
  if (entry.fate.load() == Fate::dropped)
    return;
  try {
    make();
  } catch (...) {
    Fate open = Fate::open;
    if (entry.fate.compare_exchange_strong(open, Fate::failed))
      throw;
  }
}

}  // namespace

DataLoader::Iterator::Epoch::~Epoch() {
  for (Prepared& batch : ready)
    drop(batch);
}

// The error of one that has failed is told to this wait, and so to no other; its task is at its end.
void DataLoader::Iterator::Epoch::drop(Prepared& batch) noexcept {
  Fate open = Fate::open;
  if (batch.is_given || batch.entry->fate.compare_exchange_strong(open, Fate::dropped))
    return;
  try {
    batch.task.wait();
  } catch (...) {
  }
}

void DataLoader::Iterator::Epoch::pass() {
  if (ready.empty())  // where the batch behind the last one could not be begun
    return;
  drop(ready.front());
  ready.pop_front();
}

void DataLoader::Iterator::Epoch::fill() {
  while (next < batches->size() && ready.size() <= static_cast<std::size_t>(options.prefetch))
    prepare();
}

void DataLoader::Iterator::Epoch::go_on() {
  try {
    fill();
  } catch (...) {
    if (!ready.empty())
      reach();
    throw;
  }
  reach();
}

void DataLoader::Iterator::Epoch::reach() {
  if (ready.empty()) {
    ledger->reach(nullptr, 0);
    return;
  }
  ++*position;
  ledger->reach(ready.front().entry.get(), ready.front().samples);
}

// What becomes of the batch itself is heard by who uses it.
void DataLoader::Iterator::Epoch::await(const Prepared& batch) const {
  TimedWait ended;
  const PendingWait wait(read(batch.done), ended);
  wait.start();
  if (ended.within(std::chrono::duration<double>(options.timeout)))
    return;
  const bool is_late = wait.cancel(nullptr);
  ended.wait();  // it is told in any case
  if (!is_late)
    return;
  const std::int64_t index = *position - 1;
  sluice::detail::located(site, [&] {
    throw LoaderTimeout(message("DataLoader: batch ", index, " was not made within ", options.timeout, " s"), index);
  });
}

const Batch& DataLoader::Iterator::Epoch::front() {
  Prepared& first = ready.front();
  if (!first.is_given && options.timeout > 0)
    await(first);
  first.is_given = true;
  if (first.made != nullptr) {
    first.task.wait();
    first.batch = batch_of(std::move(*first.made));
    first.made.reset();
  }
  return first.batch;
}

// Pushes the task that makes the next batch, and its way to the device.
void DataLoader::Iterator::Epoch::prepare() {
  Prepared to;
  Task task{.name = "DataLoader"};
  const std::vector<NDArray> sources = dataset->sources();
  for (const NDArray& source : sources) {
    for (const auto& region : source.object()->buffer->regions())
      task.access.push_back(read(region.var));
  }
  if (options.timeout > 0) {
    to.done = Engine::current().new_var();
    task.access.push_back(out(to.done));
  }
  if (options.batchify)
    prepare_by_function(to, task);
  else
    prepare_plain(to, task);
  ready.push_back(std::move(to));
  ++next;
}

void DataLoader::Iterator::Epoch::prepare_plain(Prepared& to, Task& task) {
  const detail::BatchPlan plan{dataset, batches, ledger, random, static_cast<std::size_t>(next), options.skip_corrupt};
  std::vector<NDArray> made;
  std::vector<TensorView> views;
  for (const ArraySpec& spec : specs) {
    made.push_back(empty_batch(plan.n(), spec, options.device));
    sluice::detail::Buffer* buffer = made.back().object()->buffer;
    task.access.push_back(out(buffer->var()));
    buffer->raise_version();
    // The arrays' memory outlives the task by their Vars; the body keeps only addresses of them.
    views.push_back(detail::batch_view(made.back().object()->data(), plan.n(), spec));
  }
  auto body = [plan, entry = to.entry, views = std::move(views)] {
    const detail::Working working(plan.ledger, entry);
    make_unless_dropped(*entry, [&] { detail::read_batch(plan, views); });
  };
  to.task = Engine::current().push(task, std::move(body), site);
  for (NDArray& array : made)
    array = moved(array, options.device, site);
  to.samples = static_cast<std::int64_t>(plan.n());
  to.batch = batch_of(std::move(made));
}

// Nobody knows the arrays before they are there: the task makes them itself, and who comes to them waits for it.
void DataLoader::Iterator::Epoch::prepare_by_function(Prepared& to, Task& task) {
  const detail::BatchPlan plan{dataset, batches, ledger, random, static_cast<std::size_t>(next), options.skip_corrupt};
  to.made = std::make_shared<std::vector<NDArray>>();
  auto body =
      [plan, entry = to.entry, made = to.made, batchify = options.batchify, device = options.device, site = site] {
        const detail::Working working(plan.ledger, entry);
        make_unless_dropped(*entry, [&] {
          const std::vector<Sample> samples = detail::read_samples(plan);
          for (const HostArray& array : detail::batchified(plan, batchify, samples))
            made->push_back(from_values(
                array.data(),
                array.dtype(),
                array.size(),
                array.shape(),
                {.dtype = array.dtype(), .device = device},
                site));
        });
      };
  to.task = Engine::current().push(task, std::move(body), site);
  to.samples = static_cast<std::int64_t>(plan.n());
}

}  // namespace sluice::gluon::data
