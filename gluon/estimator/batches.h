#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include <sluice/engine/export.h>
#include <sluice/gluon/data/loader.h>

namespace sluice::gluon::estimator {

/// Where batches come from, epoch by epoch. One of one's own says how to begin an epoch and what comes next.
class SLUICE_API BatchSource {
 public:
  virtual ~BatchSource();

  /// Begins an epoch.
  virtual void begin() = 0;
  /// The next batch of it, which stays until the next call; null at its end.
  virtual const data::Batch* next() = 0;
  /// Leaves the epoch.
  virtual void end() = 0;
  /// Batches of the epoch that is to begin, where that is known.
  virtual std::optional<std::int64_t> size() const;
  /// Where it stands, if it can go on from there by load_state() (data::DataLoader); otherwise nothing: batches are
  /// then skipped until the place is reached.
  virtual std::optional<data::DataLoaderState> state() const;
  /// Throws what the loader throws; ValueError where there is no state.
  virtual void load_state(const data::DataLoaderState& state);
  /// What the batches are of: sources of the same one may not be used at once.
  virtual const void* identity() const noexcept;
};

}  // namespace sluice::gluon::estimator

namespace sluice::gluon::detail {

template <class E>
concept BatchLike = std::convertible_to<E, data::Batch> || requires {
  requires std::tuple_size_v<std::remove_cvref_t<E>>
  == 2;
};

template <class R>
concept BatchRange = requires(R& range) {
  { std::begin(range) != std::end(range) } -> std::convertible_to<bool>;
  { *std::begin(range) } -> BatchLike;
};

template <BatchLike E>
data::Batch as_batch(E&& element) {
  if constexpr (std::convertible_to<E, data::Batch>) {
    return std::forward<E>(element);
  } else {
    const auto& [samples, labels] = element;
    return {samples, labels};
  }
}

/// Any range of batches; R is a reference to one that others own, or a range of its own.
template <class R>
class RangeSource final : public estimator::BatchSource {
 public:
  explicit RangeSource(R&& range) : range_(std::forward<R>(range)) {}

  void begin() override {
    at_.reset();
    at_.emplace(std::begin(range_));
    is_first_ = true;
  }
  const data::Batch* next() override {
    if (!std::exchange(is_first_, false))
      ++*at_;
    if (!(*at_ != std::end(range_)))
      return nullptr;
    batch_ = as_batch(**at_);
    return &batch_;
  }
  void end() override {
    at_.reset();
    batch_ = {};
  }
  std::optional<std::int64_t> size() const override {
    if constexpr (requires {
                    { range_.size() } -> std::integral;
                  })
      return static_cast<std::int64_t>(range_.size());
    else
      return BatchSource::size();
  }
  std::optional<data::DataLoaderState> state() const override {
    if constexpr (k_has_state)
      return range_.state();
    else
      return BatchSource::state();
  }
  void load_state(const data::DataLoaderState& state) override {
    if constexpr (k_has_state)
      range_.load_state(state);
    else
      BatchSource::load_state(state);
  }
  const void* identity() const noexcept override { return std::addressof(range_); }

 private:
  static constexpr bool k_has_state = requires(std::remove_reference_t<R> & range, const data::DataLoaderState& state) {
    { range.state() } -> std::same_as<data::DataLoaderState>;
    range.load_state(state);
  };

  R range_;
  std::optional<decltype(std::begin(std::declval<std::remove_reference_t<R>&>()))> at_;
  data::Batch batch_;
  bool is_first_ = false;
};

}  // namespace sluice::gluon::detail

namespace sluice::gluon::estimator {

/// Batches to train on or to evaluate: a data::DataLoader, or anything that `for (auto&& batch : range)` goes over once
/// an epoch and that gives data::Batch, or pairs of samples and labels. A range given by name must outlive this; a
/// temporary one moves in.
class SLUICE_API Batches {
 public:
  template <class R>
  requires(!std::same_as<std::remove_cvref_t<R>, Batches> && detail::BatchRange<std::remove_reference_t<R>>)
      Batches(R&& range)  // NOLINT: of whatever is at hand
      : source_(std::make_shared<detail::RangeSource<R>>(std::forward<R>(range))) {}
  /// Throws ValueError for null.
  Batches(std::shared_ptr<BatchSource> source);  // NOLINT

  BatchSource& source() const noexcept { return *source_; }

 private:
  std::shared_ptr<BatchSource> source_;
};

}  // namespace sluice::gluon::estimator
