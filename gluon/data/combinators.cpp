#include <algorithm>
#include <cmath>

#include <sluice/engine/engine.h>
#include <sluice/engine/error.h>
#include <sluice/engine/parallel.h>
#include <sluice/gluon/data/any_dataset.h>
#include <sluice/gluon/data/sampler.h>
#include <sluice/gluon/data/shuffler.h>

namespace sluice::gluon::data {

namespace {

using detail::DatasetNode;
using detail::Views;
using Node = std::shared_ptr<const DatasetNode>;

// Some samples of another dataset: the `n` from `first` on, or those that `indices` names.
class Chosen final : public DatasetNode {
 public:
  Chosen(Node from, std::int64_t first, std::int64_t n) : from_(std::move(from)), first_(first), n_(n) {}
  Chosen(Node from, std::vector<std::int64_t> indices)
      : from_(std::move(from)), n_(static_cast<std::int64_t>(indices.size())), indices_(std::move(indices)) {}

  std::int64_t size() const override { return n_; }
  std::optional<std::vector<ArraySpec>> specs() const override { return from_->specs(); }
  std::vector<NDArray> sources() const override { return from_->sources(); }
  bool is_random() const override { return from_->is_random(); }
  Sample sample_at(std::int64_t index, SampleRandom& random) const override {
    return from_->sample_at(mapped(index), random);
  }
  void read(std::span<Pick> picks, Views out) const override {
    for (Pick& pick : picks)
      pick.index = mapped(pick.index);
    from_->read(picks, out);
  }

 private:
  std::int64_t mapped(std::int64_t index) const {
    return indices_.empty() ? first_ + index : indices_[static_cast<std::size_t>(index)];
  }

  Node from_;
  std::int64_t first_ = 0, n_;
  std::vector<std::int64_t> indices_;
};

// One dataset after another.
class Concatenated final : public DatasetNode {
 public:
  explicit Concatenated(std::vector<Node> parts) : parts_(std::move(parts)) {
    for (const Node& part : parts_)
      starts_.push_back(starts_.back() + part->size());
    specs_ = parts_[0]->specs();
    for (const Node& part : parts_) {
      const auto specs = part->specs();
      if (!specs || !specs_ || !alike(*specs, *specs_))
        specs_.reset();
    }
  }

  std::int64_t size() const override { return starts_.back(); }
  std::optional<std::vector<ArraySpec>> specs() const override { return specs_; }
  std::vector<NDArray> sources() const override {
    std::vector<NDArray> all;
    for (const Node& part : parts_) {
      for (const NDArray& source : part->sources())
        all.push_back(source);
    }
    return all;
  }
  bool is_random() const override {
    return std::any_of(parts_.begin(), parts_.end(), [](const Node& part) { return part->is_random(); });
  }
  Sample sample_at(std::int64_t index, SampleRandom& random) const override {
    const std::size_t part = part_of(index);
    return parts_[part]->sample_at(index - starts_[part], random);
  }
  // Neighbours of one part are read together.
  void read(std::span<Pick> picks, Views out) const override {
    if (!specs_)
      return DatasetNode::read(picks, out);
    const auto bytes = static_cast<std::int64_t>(detail::bytes_of_sample(out));
    const auto grain = std::max<std::int64_t>(1, detail::k_bytes_a_thread / (bytes + 1));
    parallel_for(static_cast<std::int64_t>(picks.size()), grain, [&](std::int64_t begin, std::int64_t end) {
      for (auto first = static_cast<std::size_t>(begin); first < static_cast<std::size_t>(end);) {
        const std::size_t part = part_of(picks[first].index);
        std::size_t n = 0;
        for (; first + n < static_cast<std::size_t>(end) && part_of(picks[first + n].index) == part; ++n)
          picks[first + n].index -= starts_[part];
        parts_[part]->read(picks.subspan(first, n), detail::part_of(out, first, n));
        first += n;
      }
    });
  }

 private:
  static bool alike(const std::vector<ArraySpec>& a, const std::vector<ArraySpec>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const ArraySpec& x, const ArraySpec& y) {
      return x.shape == y.shape && x.dtype == y.dtype;
    });
  }
  std::size_t part_of(std::int64_t index) const {
    return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), index) - starts_.begin()) - 1;
  }

  std::vector<Node> parts_;
  std::vector<std::int64_t> starts_ = {0};
  std::optional<std::vector<ArraySpec>> specs_;
};

AnyDataset chosen(const AnyDataset& from, std::vector<std::int64_t> indices) {
  if (indices.empty())
    return AnyDataset(std::make_shared<Chosen>(from.node(), 0, 0));
  return AnyDataset(std::make_shared<Chosen>(from.node(), std::move(indices)));
}

// Fractions of n as lengths: rounded down, what is left goes one each to the first ones.
std::vector<std::int64_t> lengths_of(const std::vector<double>& parts, std::int64_t n) {
  require(!parts.empty(), [] { return "split: no parts"; });
  double sum = 0;
  for (const double part : parts) {
    require(part >= 0 && std::isfinite(part), [&] { return message("split: a part of ", part, " cannot be"); });
    sum += part;
  }
  std::vector<std::int64_t> lengths;
  if (std::abs(sum - 1) < 1e-6) {
    std::int64_t left = n;
    for (const double part : parts) {
      const double whole =
          std::floor(part * static_cast<double>(n) + 1e-6);  // 0.1 * 30 is a little more than 3, or less
      lengths.push_back(std::min(left, static_cast<std::int64_t>(whole)));
      left -= lengths.back();
    }
    for (std::size_t i = 0; left > 0; i = (i + 1) % parts.size()) {
      if (parts[i] > 0) {
        ++lengths[i];
        --left;
      }
    }
    return lengths;
  }
  for (const double part : parts) {
    require(part == std::floor(part) && sum == static_cast<double>(n), [&] {
      return message("split: the parts add up to ", sum, ", which is neither 1 nor the number of samples, ", n);
    });
    lengths.push_back(static_cast<std::int64_t>(part));
  }
  return lengths;
}

}  // namespace

AnyDataset AnyDataset::take(std::int64_t count) const {
  require(count >= 0, [&] { return message("take: ", count, " samples cannot be taken"); });
  return AnyDataset(std::make_shared<Chosen>(node_, 0, std::min(count, size())));
}

AnyDataset AnyDataset::shard(std::int64_t num_shards, std::int64_t index) const {
  require(num_shards >= 1 && index >= 0 && index < num_shards, [&] {
    return message("shard: there is no shard ", index, " of ", num_shards);
  });
  const std::int64_t each = size() / num_shards, more = size() % num_shards;
  return AnyDataset(
      std::make_shared<Chosen>(node_, each * index + std::min(index, more), each + (index < more ? 1 : 0)));
}

AnyDataset AnyDataset::filter(const std::function<bool(const Sample&)>& holds) const {
  return chosen(*this, FilterSampler(holds, *this).order({}));
}

AnyDataset AnyDataset::sample(const Sampler& sampler, std::optional<std::uint64_t> seed) const {
  RandomBlock random{.seed = seed.value_or(0)};
  if (sampler.is_random() && !seed)
    random = Engine::current().take_random(1);
  std::vector<std::int64_t> indices = sampler.order(random);
  for (const std::int64_t index : indices) {
    require<IndexError>(index >= 0 && index < size(), [&] {
      return message("sample: the sampler names sample ", index, ", there are ", size());
    });
  }
  return chosen(*this, std::move(indices));
}

AnyDataset concatenate(const std::vector<AnyDataset>& datasets) {
  require(!datasets.empty(), [] { return "concatenate: no datasets"; });
  std::vector<Node> parts;
  for (const AnyDataset& dataset : datasets)
    parts.push_back(dataset.node());
  return AnyDataset(std::make_shared<Concatenated>(std::move(parts)));
}

std::vector<AnyDataset> split(const AnyDataset& dataset, const std::vector<double>& parts) {
  std::vector<AnyDataset> made;
  std::int64_t first = 0;
  for (const std::int64_t length : lengths_of(parts, dataset.size())) {
    made.emplace_back(std::make_shared<Chosen>(dataset.node(), first, length));
    first += length;
  }
  return made;
}

std::vector<AnyDataset> random_split(const AnyDataset& dataset, const std::vector<double>& parts, std::uint64_t seed) {
  const std::vector<std::int64_t> order = RandomSampler(dataset.size()).order({.seed = seed});
  std::vector<AnyDataset> made;
  auto first = order.begin();
  for (const std::int64_t length : lengths_of(parts, dataset.size())) {
    made.push_back(chosen(dataset, {first, first + length}));
    first += length;
  }
  return made;
}

}  // namespace sluice::gluon::data
