#include <algorithm>
#include <string>
#include <utility>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/data/epoch.h>
#include <sluice/gluon/data/loader.h>
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

}  // namespace

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
    std::shared_ptr<const detail::DatasetNode> dataset, DataLoaderOptions options, SourceLocation site)
    : dataset_(std::move(dataset)), options_(std::move(options)), site_(site) {
  sluice::detail::located(site, [&] {
    require(dataset_ != nullptr, [] { return "DataLoader: the dataset is null"; });
    num_samples_ = dataset_->size();
    check_options();
    specs_ = detail::specs_of_samples(*dataset_);
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
  epoch->specs = specs_;
  epoch->options = options_;
  epoch->site = site_;
  DataLoaderState begun = begun_;
  if (!resumed_) {
    RandomBlock random{.seed = options_.seed.value_or(0), .offset = static_cast<std::uint64_t>(epochs_)};
    if ((options_.shuffle || dataset_->is_random()) && !options_.seed)
      random = Engine::current().take_random(1);
    begun = {.order = random, .carried = carried_};
  }
  std::vector<std::int64_t> carried = begun.carried;
  epoch->random = begun.order;
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
