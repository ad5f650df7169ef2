#include <algorithm>
#include <deque>
#include <span>
#include <string>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/data/loader.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>

namespace sluice::gluon::data {

namespace {

// SplitMix64 (Steele, Lea and Flood, 2014): spreads any seed well enough to shuffle by.
class Shuffler {
 public:
  explicit Shuffler(std::uint64_t seed, std::uint64_t stream) : state_(seed) { state_ = next() ^ stream; }

  void shuffle(std::vector<std::int64_t>& items) {
    for (std::size_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t next() {
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // The high half of a 64 x 64 bit product: even to within n / 2^64.
  std::size_t below(std::uint64_t n) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<std::size_t>((static_cast<Wide>(next()) * n) >> 64);
  }

  std::uint64_t state_;
};

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

// "batch 3, samples 6 to 7", counted from 0 as a dataset counts them.
std::string describe(std::size_t batch, std::span<const std::int64_t> samples) {
  constexpr std::size_t k_listed = 8;
  const std::int64_t first = samples.front(), last = samples.back();
  bool is_run = true;
  for (std::size_t i = 1; i < samples.size(); ++i)
    is_run &= samples[i] == samples[i - 1] + 1;
  if (samples.size() == 1)
    return message("batch ", batch, ", sample ", first);
  if (is_run)
    return message("batch ", batch, ", samples ", first, " to ", last);
  std::string listed;
  for (std::size_t i = 0; i < std::min(k_listed, samples.size()); ++i)
    listed += message(i == 0 ? "" : ", ", samples[i]);
  if (samples.size() > k_listed)
    listed += message(" and ", samples.size() - k_listed, " more");
  return message("batch ", batch, ", samples ", listed);
}

void read_batch(
    const detail::AnyDataset& dataset,
    std::size_t batch,
    std::span<const std::int64_t> samples,
    const TensorView& data,
    const TensorView& label) {
  try {
    dataset.read(samples, data, label);
  } catch (Error& error) {
    error.locate("in " + describe(batch, samples));
    throw;
  } catch (const std::exception& other) {
    TaskFailed failed(message("task \"DataLoader\" failed: ", other.what()));
    failed.locate("in " + describe(batch, samples));
    throw failed;
  }
}

}  // namespace

struct DataLoader::Iterator::Epoch {
  std::shared_ptr<const detail::AnyDataset> dataset;
  DataLoaderOptions options;
  SourceLocation site;
  std::shared_ptr<const std::vector<std::int64_t>> order;
  std::size_t next = 0;  // the first index of `order` that no batch was made of yet
  std::shared_ptr<std::int64_t> position = std::make_shared<std::int64_t>(0);  // batches reached
  std::deque<Batch> ready;

  void prepare();
  void fill() {
    while (next < order->size() && ready.size() <= static_cast<std::size_t>(options.prefetch))
      prepare();
  }
};

// Pushes the task that makes the next batch, and its way to the device.
void DataLoader::Iterator::Epoch::prepare() {
  const std::size_t n = std::min(order->size() - next, static_cast<std::size_t>(options.batch_size));
  const NDArray data = empty_batch(n, dataset->data_spec(), options.device);
  const NDArray label = empty_batch(n, dataset->label_spec(), options.device);
  const std::vector<NDArray> sources = dataset->sources();
  Task task{.name = "DataLoader"};
  for (const NDArray* made : {&data, &label}) {
    sluice::detail::Buffer* buffer = made->object()->buffer;
    task.access.push_back(out(buffer->var()));
    buffer->raise_version();
  }
  for (const NDArray& source : sources) {
    for (const auto& region : source.object()->buffer->regions())
      task.access.push_back(read(region.var));
  }
  // The arrays' memory outlives the task by their Vars; the body keeps only addresses of them.
  std::byte *data_to = data.object()->data(), *label_to = label.object()->data();
  const std::size_t batch = next / static_cast<std::size_t>(options.batch_size);
  auto body = [dataset = dataset, order = order, batch, first = next, n, data_to, label_to] {
    read_batch(
        *dataset,
        batch,
        std::span(*order).subspan(first, n),
        detail::batch_view(data_to, n, dataset->data_spec()),
        detail::batch_view(label_to, n, dataset->label_spec()));
  };
  Engine::current().push(task, std::move(body), site);
  ready.push_back({moved(data, options.device, site), moved(label, options.device, site)});
  next += n;
}

const Batch& DataLoader::Iterator::operator*() const {
  return epoch_->ready.front();
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  epoch_->ready.pop_front();
  epoch_->fill();
  if (!epoch_->ready.empty())
    ++*epoch_->position;
  return *this;
}

bool DataLoader::Iterator::operator==(std::default_sentinel_t) const noexcept {
  return epoch_->ready.empty();
}

DataLoader::DataLoader(
    std::shared_ptr<const detail::AnyDataset> dataset, DataLoaderOptions options, SourceLocation site)
    : dataset_(std::move(dataset)), options_(std::move(options)), site_(site) {
  sluice::detail::located(site, [&] {
    require(dataset_ != nullptr, [] { return "DataLoader: the dataset is null"; });
    num_samples_ = dataset_->size();
    check_options();
  });
}

void DataLoader::check_options() const {
  require(num_samples_ >= 1, [] { return "DataLoader: the dataset is empty"; });
  require(options_.batch_size >= 1, [&] { return message("DataLoader: batch_size is ", options_.batch_size); });
  require(options_.prefetch >= 0, [&] { return message("DataLoader: prefetch is ", options_.prefetch); });
  const std::string& last = options_.last_batch;
  require(last == "keep" || last == "discard" || last == "rollover", [&] {
    return message("DataLoader: last_batch is '", last, "', it can be 'keep', 'discard' or 'rollover'");
  });
}

std::int64_t DataLoader::size() const noexcept {
  const std::vector<std::int64_t>& carried = resumed_ ? begun_.carried : carried_;
  const std::int64_t samples = num_samples_ + static_cast<std::int64_t>(carried.size());
  const bool keep = options_.last_batch == "keep";
  return (samples + (keep ? options_.batch_size - 1 : 0)) / options_.batch_size - (resumed_ ? begun_.position : 0);
}

// The samples of an epoch in their order. `carried`: what it begins with, then what it leaves over.
std::vector<std::int64_t> DataLoader::order_of(const RandomBlock& random, std::vector<std::int64_t>& carried) const {
  std::vector<std::int64_t> order(static_cast<std::size_t>(num_samples_));
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = static_cast<std::int64_t>(i);
  if (options_.shuffle)
    Shuffler(random.seed, random.offset).shuffle(order);
  if (options_.last_batch == "keep")
    return order;
  order.insert(order.begin(), carried.begin(), carried.end());
  const std::size_t full = order.size() - order.size() % static_cast<std::size_t>(options_.batch_size);
  if (options_.last_batch == "rollover")
    carried.assign(order.begin() + static_cast<std::ptrdiff_t>(full), order.end());
  order.resize(full);
  return order;
}

DataLoader::Iterator DataLoader::begin() {
  auto epoch = std::make_shared<Iterator::Epoch>();
  epoch->dataset = dataset_;
  epoch->options = options_;
  epoch->site = site_;
  DataLoaderState begun = begun_;
  if (!resumed_) {
    RandomBlock random{.seed = options_.seed.value_or(0), .offset = static_cast<std::uint64_t>(epochs_)};
    if (options_.shuffle && !options_.seed)
      random = Engine::current().take_random(1);
    begun = {.order = random, .carried = carried_};
  }
  std::vector<std::int64_t> carried = begun.carried;
  *epoch->position = begun.position;
  epoch->order = std::make_shared<const std::vector<std::int64_t>>(order_of(begun.order, carried));
  epoch->next = static_cast<std::size_t>(*epoch->position * options_.batch_size);
  epoch->fill();
  if (!epoch->ready.empty())
    ++*epoch->position;
  // Nothing throws from here on: an epoch that cannot begin changes nothing.
  if (!std::exchange(resumed_, false))
    ++epochs_;
  begun_ = std::move(begun);
  carried_ = std::move(carried);
  position_ = epoch->position;
  return Iterator(std::move(epoch));
}

DataLoaderState DataLoader::state() const {
  DataLoaderState state = begun_;
  state.num_samples = num_samples_;
  state.batch_size = options_.batch_size;
  state.shuffle = options_.shuffle;
  state.last_batch = options_.last_batch;
  state.epochs = epochs_;
  if (position_ != nullptr)
    state.position = *position_;
  return state;
}

void DataLoader::check_state(const DataLoaderState& state) const {
  const auto same = [](const char* what, const auto& theirs, const auto& ours) {
    require(theirs == ours, [&] {
      return message("DataLoader::load_state: the state is of a loader with ", what, " ", theirs, ", this has ", ours);
    });
  };
  same("num_samples", state.num_samples, num_samples_);
  same("batch_size", state.batch_size, options_.batch_size);
  same("shuffle", state.shuffle, options_.shuffle);
  same("last_batch", state.last_batch, options_.last_batch);
  if (options_.shuffle && options_.seed && state.epochs > 0)
    same("seed", state.order.seed, *options_.seed);
  const auto in_dataset = [this](std::int64_t sample) { return sample >= 0 && sample < num_samples_; };
  const std::int64_t samples = num_samples_ + static_cast<std::int64_t>(state.carried.size());
  const std::int64_t most = (samples + options_.batch_size - 1) / options_.batch_size;
  require(
      state.epochs >= 0 && state.position >= 0 && state.position <= most && (state.epochs > 0 || state.position == 0) &&
          static_cast<std::int64_t>(state.carried.size()) < options_.batch_size &&
          std::all_of(state.carried.begin(), state.carried.end(), in_dataset),
      [&] {
        return message(
            "DataLoader::load_state: batch ",
            state.position,
            " of epoch ",
            state.epochs,
            " with ",
            state.carried.size(),
            " carried samples cannot be, with ",
            num_samples_,
            " samples in batches of ",
            options_.batch_size);
      });
}

void DataLoader::load_state(const DataLoaderState& state) {
  check_state(state);
  epochs_ = state.epochs;
  begun_ = state;
  carried_ = state.carried;
  position_ = nullptr;
  resumed_ = state.epochs > 0;
  if (resumed_ && size() <= 0) {  // that epoch was over
    order_of(begun_.order, carried_);
    resumed_ = false;
  }
}

}  // namespace sluice::gluon::data
