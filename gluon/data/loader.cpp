#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/data/batch_reading.h>
#include <sluice/gluon/data/epoch.h>
#include <sluice/gluon/data/ledger.h>
#include <sluice/gluon/data/loader.h>
#include <sluice/ndarray/detail/located.h>

namespace sluice::gluon::data {

namespace {
constexpr double k_longest_timeout = 1e9;  // that clocks can count
}

const Batch& DataLoader::Iterator::operator*() const {
  if (epoch_->ready.empty())
    epoch_->go_on();
  return epoch_->front();
}

DataLoader::Iterator& DataLoader::Iterator::operator++() {
  epoch_->pass();
  epoch_->go_on();
  return *this;
}

bool DataLoader::Iterator::operator==(std::default_sentinel_t) const noexcept {
  return epoch_->ready.empty() && epoch_->next >= epoch_->batches->size();
}

DataLoader::DataLoader(
    std::shared_ptr<const detail::DatasetNode> dataset, DataLoaderOptions options, SourceLocation site)
    : dataset_(std::move(dataset)), options_(std::move(options)), site_(site) {
  sluice::detail::located(site, [&] {
    require(dataset_ != nullptr, [] { return "DataLoader: the dataset is null"; });
    num_samples_ = dataset_->size();
    check_options();
    constexpr std::int64_t k_tries = 16, k_tries_of_corrupt = 1000;
    if (!options_.batchify)
      specs_ = detail::specs_of_samples(*dataset_, options_.skip_corrupt ? k_tries_of_corrupt : k_tries);
    ledger_ = std::make_shared<detail::Ledger>();
  });
}

void DataLoader::check_options() {
  require(num_samples_ >= 1, [] { return "DataLoader: the dataset is empty"; });
  require(options_.prefetch >= 0, [&] { return message("DataLoader: prefetch is ", options_.prefetch); });
  require(options_.timeout >= 0 && options_.timeout <= k_longest_timeout, [&] {
    return message("DataLoader: timeout is ", options_.timeout, " s, it must be within [0, ", k_longest_timeout, "]");
  });
  require(!options_.sampler || !options_.shuffle, [] {
    return "DataLoader: shuffle and sampler both say the order; give one of them";
  });
  if (options_.batch_sampler) {
    const DataLoaderOptions unsaid;
    require(
        !options_.sampler && !options_.shuffle && options_.batch_size == unsaid.batch_size &&
            options_.last_batch == unsaid.last_batch,
        [] { return "DataLoader: batch_sampler says what batch_size, shuffle, sampler and last_batch would"; });
    options_.batch_size = options_.batch_sampler->batch_size();
    options_.last_batch = options_.batch_sampler->last_batch();
    return;
  }
  if (!options_.sampler)
    options_.sampler = options_.shuffle ? Sampler(RandomSampler(num_samples_)) : SequentialSampler(num_samples_);
  options_.batch_sampler.emplace(*options_.sampler, options_.batch_size, options_.last_batch);
}

// Whether an epoch needs random numbers.
bool DataLoader::draws() const noexcept {
  return options_.batch_sampler->is_random() || dataset_->is_random();
}

std::int64_t DataLoader::size() const noexcept {
  const std::vector<std::int64_t>& carried = resumed_ ? begun_.carried : carried_;
  return options_.batch_sampler->size(static_cast<std::int64_t>(carried.size())) - (resumed_ ? begun_.position : 0);
}

namespace {

void check_indices(const std::vector<std::int64_t>& order, std::int64_t num_samples) {
  for (const std::int64_t index : order) {
    require<IndexError>(index >= 0 && index < num_samples, [&] {
      return message("DataLoader: its sampler names sample ", index, ", there are ", num_samples);
    });
  }
}

/// A number of the engine's generator, given back unless it is kept or others have drawn since.
class Drawn {
 public:
  Drawn() = default;
  Drawn(const Drawn&) = delete;
  Drawn& operator=(const Drawn&) = delete;
  ~Drawn() {
    if (!taken_)
      return;
    Engine& engine = Engine::current();
    if (const RandomBlock now = engine.random_state(); now.seed == taken_->seed && now.offset == taken_->offset + 1)
      engine.set_random_state(*taken_);
  }
  RandomBlock take() { return *(taken_ = Engine::current().take_random(1)); }
  void keep() noexcept { taken_.reset(); }

 private:
  std::optional<RandomBlock> taken_;
};

}  // namespace

// An epoch that cannot begin changes nothing.
DataLoader::Iterator DataLoader::begin() {
  auto epoch = std::make_shared<Iterator::Epoch>();
  epoch->dataset = dataset_;
  epoch->specs = specs_;
  epoch->ledger = ledger_;
  epoch->options = options_;
  epoch->site = site_;
  DataLoaderState begun = begun_;
  Drawn drawn;
  if (!resumed_) {
    RandomBlock random{.seed = options_.seed.value_or(0), .offset = static_cast<std::uint64_t>(epochs_)};
    if (draws() && !options_.seed)
      random = drawn.take();
    begun = {.order = random, .carried = carried_};
  }
  std::vector<std::int64_t> carried = begun.carried;
  epoch->random = begun.order;
  *epoch->position = begun.position;
  epoch->batches = std::make_shared<const Batches>(options_.batch_sampler->batches(begun.order, carried));
  check_indices(epoch->batches->order, num_samples_);
  epoch->next = *epoch->position;
  epoch->fill();
  ledger_->begin_epoch();
  epoch->reach();
  // Nothing throws from here on.
  drawn.keep();
  if (!std::exchange(resumed_, false))
    ++epochs_;
  begun_ = std::move(begun);
  carried_ = std::move(carried);
  position_ = detail::SharedPosition(epoch->position);
  return Iterator(std::move(epoch));
}

DataLoaderFigures DataLoader::figures() const {
  return ledger_->figures();
}

std::vector<CorruptSample> DataLoader::corrupt_samples() const {
  return ledger_->corrupt_samples();
}

DataLoaderState DataLoader::state() const {
  DataLoaderState state = begun_;
  state.num_samples = num_samples_;
  state.batch_size = options_.batch_size;
  state.shuffle = options_.shuffle;
  state.last_batch = options_.last_batch;
  state.epochs = epochs_;
  if (const std::optional<std::int64_t> position = position_.get())
    state.position = *position;
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
  if (draws() && options_.seed && state.epochs > 0)
    same("seed", state.order.seed, *options_.seed);
  const auto in_dataset = [this](std::int64_t sample) { return sample >= 0 && sample < num_samples_; };
  const auto carried = static_cast<std::int64_t>(state.carried.size());
  const std::int64_t most = options_.batch_sampler->size(carried);
  require(
      state.epochs >= 0 && state.position >= 0 && state.position <= most && (state.epochs > 0 || state.position == 0) &&
          carried < std::max<std::int64_t>(1, options_.batch_size) &&
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
  position_ = {};
  resumed_ = state.epochs > 0;
  if (resumed_ && size() <= 0) {  // that epoch was over
    options_.batch_sampler->batches(begun_.order, carried_);
    resumed_ = false;
  }
}

}  // namespace sluice::gluon::data
