#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include <sluice/engine/error.h>
#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/sampler.h>
#include <sluice/gluon/data/shuffler.h>

namespace sluice::gluon::data {

SequentialSampler::SequentialSampler(std::int64_t length, std::int64_t start) : length_(length), start_(start) {
  require(length >= 0 && start >= 0, [&] {
    return message("SequentialSampler: length ", length, ", start ", start, " cannot be");
  });
}

std::vector<std::int64_t> SequentialSampler::order(const RandomBlock&) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(length_));
  std::iota(indices.begin(), indices.end(), start_);
  return indices;
}

RandomSampler::RandomSampler(std::int64_t length, const RandomSamplerOptions& options)
    : length_(length), options_(options) {
  if (options_.num_samples == 0)
    options_.num_samples = length;
  const std::int64_t n = options_.num_samples;
  require(length >= 0 && n >= 0 && (options_.replacement ? n == 0 || length > 0 : n <= length), [&] {
    return message("RandomSampler: ", n, " samples of ", length, " cannot be had");
  });
}

std::vector<std::int64_t> RandomSampler::order(const RandomBlock& random) const {
  detail::Shuffler shuffler(random.seed, random.offset);
  if (options_.replacement) {
    std::vector<std::int64_t> indices(static_cast<std::size_t>(options_.num_samples));
    for (std::int64_t& index : indices)
      index = static_cast<std::int64_t>(shuffler.below(static_cast<std::uint64_t>(length_)));
    return indices;
  }
  std::vector<std::int64_t> indices = SequentialSampler(length_).order(random);
  shuffler.shuffle(indices);
  indices.resize(static_cast<std::size_t>(options_.num_samples));
  return indices;
}

WeightedSampler::WeightedSampler(std::vector<double> weights, const RandomSamplerOptions& options)
    : weights_(std::move(weights)), options_(options) {
  double sum = 0;
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    require(weights_[i] >= 0 && std::isfinite(weights_[i]), [&] {
      return message("WeightedSampler: weight ", i, " is ", weights_[i]);
    });
    positive += weights_[i] > 0;
    sums_.push_back(sum += weights_[i]);
  }
  require(sum > 0 && std::isfinite(sum), [&] { return message("WeightedSampler: the weights add up to ", sum); });
  if (options_.num_samples == 0)
    options_.num_samples = options_.replacement ? static_cast<std::int64_t>(weights_.size()) : positive;
  require(options_.num_samples >= 0 && (options_.replacement || options_.num_samples <= positive), [&] {
    return message("WeightedSampler: ", options_.num_samples, " samples of ", positive, " with a weight cannot be had");
  });
}

std::vector<std::int64_t> WeightedSampler::order(const RandomBlock& random) const {
  SampleRandom numbers(random, ~std::uint64_t{0});  // of no sample's place
  std::vector<std::int64_t> indices;
  const auto n = static_cast<std::size_t>(options_.num_samples);
  if (options_.replacement) {
    for (std::size_t i = 0; i < n; ++i) {
      // The first whose sum lies above: never one of weight 0. Rounding may reach the end, where the last one is meant.
      const double at = numbers.uniform() * sums_.back();
      const auto found = std::min(
          std::upper_bound(sums_.begin(), sums_.end(), at), std::lower_bound(sums_.begin(), sums_.end(), sums_.back()));
      indices.push_back(found - sums_.begin());
    }
    return indices;
  }
  // Efraimidis and Spirakis, "Weighted random sampling with a reservoir", 2006: the largest u ^ (1 / weight).
  std::vector<std::pair<double, std::int64_t>> keys;
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] > 0)
      keys.emplace_back(-std::log(1 - numbers.uniform()) / weights_[i], static_cast<std::int64_t>(i));
  }
  std::sort(keys.begin(), keys.end());
  for (std::size_t i = 0; i < n; ++i)
    indices.push_back(keys[i].second);
  return indices;
}

std::vector<std::int64_t> SubsetSampler::order(const RandomBlock& random) const {
  std::vector<std::int64_t> indices = indices_;
  if (shuffle_)
    detail::Shuffler(random.seed, random.offset).shuffle(indices);
  return indices;
}

namespace {

std::vector<std::int64_t> those_that_hold(const std::function<bool(const Sample&)>& holds, const AnyDataset& dataset) {
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    if (holds(dataset[i]))
      indices.push_back(i);
  }
  return indices;
}

}  // namespace

FilterSampler::FilterSampler(const std::function<bool(const Sample&)>& holds, const AnyDataset& dataset)
    : SubsetSampler(those_that_hold(holds, dataset)) {}

IntervalSampler::IntervalSampler(std::int64_t length, std::int64_t interval, bool rollover)
    : length_(length), interval_(interval), rollover_(rollover) {
  require(interval >= 1 && interval <= length, [&] {
    return message("IntervalSampler: interval ", interval, " must lie between 1 and the length ", length);
  });
}

std::int64_t IntervalSampler::size() const noexcept {
  return rollover_ ? length_ : (length_ + interval_ - 1) / interval_;
}

std::vector<std::int64_t> IntervalSampler::order(const RandomBlock&) const {
  std::vector<std::int64_t> indices;
  for (std::int64_t start = 0; start < (rollover_ ? interval_ : 1); ++start) {
    for (std::int64_t i = start; i < length_; i += interval_)
      indices.push_back(i);
  }
  return indices;
}

BatchSampler::BatchSampler(Sampler sampler, std::int64_t batch_size, std::string last_batch)
    : batch_size_(batch_size), last_batch_(std::move(last_batch)), is_random_(sampler.is_random()) {
  sampler_.push_back(std::move(sampler));
  require(batch_size >= 1, [&] { return message("DataLoader: batch_size is ", batch_size); });
  require(last_batch_ == "keep" || last_batch_ == "discard" || last_batch_ == "rollover", [&] {
    return message("DataLoader: last_batch is '", last_batch_, "', it can be 'keep', 'discard' or 'rollover'");
  });
}

std::int64_t BatchSampler::size(std::int64_t carried) const noexcept {
  if (sampler_.empty())
    return own_size_;
  const std::int64_t samples = sampler_[0].size() + carried;
  return samples / batch_size_ + (last_batch_ == "keep" && samples % batch_size_ != 0 ? 1 : 0);
}

Batches BatchSampler::batches(const RandomBlock& random, std::vector<std::int64_t>& carried) const {
  Batches made;
  if (sampler_.empty()) {
    for (const std::vector<std::int64_t>& batch : own_(random)) {
      require(!batch.empty(), [&] { return message("DataLoader: batch ", made.size(), " of batch_sampler is empty"); });
      made.order.insert(made.order.end(), batch.begin(), batch.end());
      made.starts.push_back(made.order.size());
    }
    require(made.size() == own_size_, [&] {
      return message("DataLoader: batch_sampler gave ", made.size(), " batches, its size() is ", own_size_);
    });
    return made;
  }
  made.order = sampler_[0].order(random);
  require(std::ssize(made.order) == sampler_[0].size(), [&] {
    return message("DataLoader: its sampler gave ", made.order.size(), " samples, its size() is ", sampler_[0].size());
  });
  made.order.insert(made.order.begin(), carried.begin(), carried.end());
  const auto size = static_cast<std::size_t>(batch_size_);
  const std::size_t whole = made.order.size() - made.order.size() % size;
  for (std::size_t end = size; end <= whole; end += size)
    made.starts.push_back(end);
  if (last_batch_ == "rollover")
    carried.assign(made.order.begin() + static_cast<std::ptrdiff_t>(whole), made.order.end());
  if (last_batch_ != "keep")
    made.order.resize(whole);
  else if (whole < made.order.size())
    made.starts.push_back(made.order.size());
  return made;
}

}  // namespace sluice::gluon::data
