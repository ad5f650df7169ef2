#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/gluon/data/sample.h>

/// Which samples an epoch has, and in what order.
namespace sluice::gluon::data {

class AnyDataset;

/// An order of samples: `size()` says how many indices an epoch has, and `order(random)` gives so many, the same for
/// the same RandomBlock, whose seed and offset differ from epoch to epoch. `is_random()`, if there is one, says whether
/// it depends on that block; without it it does.
template <class S>
concept IndexSampler = std::copy_constructible<S> && requires(const S& sampler, const RandomBlock& random) {
  { sampler.size() } -> std::convertible_to<std::int64_t>;
  { sampler.order(random) } -> std::convertible_to<std::vector<std::int64_t>>;
};

/// A sampler of any type behind one. Copies share it.
class SLUICE_API Sampler {
 public:
  template <class S>
  requires(!std::same_as<S, Sampler> && IndexSampler<S>)  // in this order: else copying asks for itself
      Sampler(S sampler)                                  // NOLINT: every sampler is one
      : size_(sampler.size()) {
    if constexpr (requires { sampler.is_random(); })
      is_random_ = sampler.is_random();
    order_ = [shared = std::make_shared<const S>(std::move(sampler))](const RandomBlock& random) {
      return std::vector<std::int64_t>(shared->order(random));
    };
  }
  std::int64_t size() const noexcept { return size_; }
  std::vector<std::int64_t> order(const RandomBlock& random) const { return order_(random); }
  bool is_random() const noexcept { return is_random_; }

 private:
  std::int64_t size_;
  bool is_random_ = true;
  std::function<std::vector<std::int64_t>(const RandomBlock&)> order_;
};

/// start, start + 1, .., start + length - 1.
class SLUICE_API SequentialSampler {
 public:
  /// Throws ValueError for negative numbers.
  explicit SequentialSampler(std::int64_t length, std::int64_t start = 0);
  std::int64_t size() const noexcept { return length_; }
  std::vector<std::int64_t> order(const RandomBlock& random) const;
  bool is_random() const noexcept { return false; }

 private:
  std::int64_t length_, start_;
};

/// How many, and whether one may come again.
struct RandomSamplerOptions {
  bool replacement = false;
  std::int64_t num_samples = 0;  // an epoch's; 0: as many as there are
};

/// 0 .. length - 1 in random order; with `replacement` each place holds any of them. DataLoaderOptions::shuffle is one.
class SLUICE_API RandomSampler {
 public:
  /// Throws ValueError for negative numbers, and for more samples than there are unless they may come again.
  explicit RandomSampler(std::int64_t length, const RandomSamplerOptions& options = {});
  std::int64_t size() const noexcept { return options_.num_samples; }
  std::vector<std::int64_t> order(const RandomBlock& random) const;

 private:
  std::int64_t length_;
  RandomSamplerOptions options_;
};

/// Indices as often as their weights say: with `replacement` each place of the epoch holds index i with probability
/// weights[i] / sum; without, what was drawn is out, and indices of weight 0 never come.
class SLUICE_API WeightedSampler {
 public:
  /// Throws ValueError for weights that are negative or not finite or all zero, and for more samples than have a
  /// weight unless they may come again.
  explicit WeightedSampler(std::vector<double> weights, const RandomSamplerOptions& options = {.replacement = true});
  std::int64_t size() const noexcept { return options_.num_samples; }
  std::vector<std::int64_t> order(const RandomBlock& random) const;

 private:
  std::vector<double> weights_, sums_;  // sums: of the weights up to each
  RandomSamplerOptions options_;
};

/// These indices, in this order or in a random one.
class SLUICE_API SubsetSampler {
 public:
  explicit SubsetSampler(std::vector<std::int64_t> indices, bool shuffle = false)
      : indices_(std::move(indices)), shuffle_(shuffle) {}
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(indices_.size()); }
  std::vector<std::int64_t> order(const RandomBlock& random) const;
  bool is_random() const noexcept { return shuffle_; }

 private:
  std::vector<std::int64_t> indices_;
  bool shuffle_;
};

/// The indices of the samples of which `holds` is true, in order. They are found when it is made: the caller reads
/// every sample, waiting for arrays that are still being written.
class SLUICE_API FilterSampler : public SubsetSampler {
 public:
  FilterSampler(const std::function<bool(const Sample&)>& holds, const AnyDataset& dataset);
};

/// 0, interval, 2 * interval, .. below length; then, with `rollover`, the same from 1, from 2, ..
class SLUICE_API IntervalSampler {
 public:
  /// Throws ValueError unless 1 <= interval <= length.
  IntervalSampler(std::int64_t length, std::int64_t interval, bool rollover = true);
  std::int64_t size() const noexcept;
  std::vector<std::int64_t> order(const RandomBlock& random) const;
  bool is_random() const noexcept { return false; }

 private:
  std::int64_t length_, interval_;
  bool rollover_;
};

/// The batches of an epoch: those between starts[i] and starts[i + 1] of `order`.
struct Batches {
  std::vector<std::int64_t> order = {};
  std::vector<std::size_t> starts = {0};
  std::int64_t size() const noexcept { return static_cast<std::int64_t>(starts.size()) - 1; }
};

/// Batches of a sampler's indices: as many to each as batch_size says. `last_batch`: what to do with those that do not
/// fill one, "keep" them as a smaller batch, "discard" them, or let them "rollover" to the front of the next epoch. Or
/// batches of a kind of your own: a type with `size()`, the number of batches, and `batches(random)`, which gives a
/// std::vector of vectors of indices, as many, none of them empty; see IndexSampler.
class SLUICE_API BatchSampler {
 public:
  /// Throws ValueError for a batch_size below 1 and a last_batch that is none of the three.
  BatchSampler(Sampler sampler, std::int64_t batch_size, std::string last_batch = "keep");
  template <class B>
  requires(
      !std::same_as<B, BatchSampler> &&
      requires(const B& own, const RandomBlock& random) {
        { own.size() } -> std::convertible_to<std::int64_t>;
        { own.batches(random) } -> std::convertible_to<std::vector<std::vector<std::int64_t>>>;
      }) BatchSampler(B own)  // NOLINT: it is one
      : own_size_(own.size()) {
    if constexpr (requires { own.is_random(); })
      is_random_ = own.is_random();
    own_ = [shared = std::make_shared<const B>(std::move(own))](const RandomBlock& random) {
      return std::vector<std::vector<std::int64_t>>(shared->batches(random));
    };
  }

  /// Batches of an epoch that begins with `carried` samples of the one before.
  std::int64_t size(std::int64_t carried = 0) const noexcept;
  /// The batches of an epoch. `carried`: what it begins with, then what it leaves over. Throws ValueError for batches
  /// of a kind of your own that are empty or not as many as size() says, and for such a sampler's indices.
  Batches batches(const RandomBlock& random, std::vector<std::int64_t>& carried) const;
  bool is_random() const noexcept { return is_random_; }
  /// 0 where the batches are of a kind of your own.
  std::int64_t batch_size() const noexcept { return batch_size_; }
  const std::string& last_batch() const noexcept { return last_batch_; }

 private:
  std::vector<Sampler> sampler_ = {};  // one, or none for batches of another kind
  std::int64_t batch_size_ = 0, own_size_ = 0;
  std::string last_batch_ = "keep";
  bool is_random_ = true;
  std::function<std::vector<std::vector<std::int64_t>>(const RandomBlock&)> own_;
};

}  // namespace sluice::gluon::data
