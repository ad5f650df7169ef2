#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/update/squares.h>
#include <sluice/operator/update/work.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_block = 512;  // elements that stay in the nearest cache

/// One parameter in its types, and what strips of it leave for the others.
template <class T>
class Factored {
 public:
  using C = Compute<T>;

  Factored(const UpdateWork& work, const UpdatePiece& piece)
      : rule_(*work.factored),
        piece_(piece),
        strips_(piece.strips),
        rates_(rates_of(work, piece)),
        step_(
            rule_, piece.dtype, rates_.at, rates_.decay, {static_cast<C>(rescale_of(work)), static_cast<C>(work.clip)}),
        sums_(static_cast<std::size_t>(strips_.count)),
        partials_(static_cast<std::size_t>(strips_.partials())),
        means_(static_cast<std::size_t>(strips_.matrices())) {}

  void run() {
    if (strips_.factored())
      update_means();
    each_strip([&](std::int64_t i) { sums_[static_cast<std::size_t>(i)] = squares_of(strips_.strip(i)); });
    SquareSums<1> all{};
    for (const SquareSums<1>& sums : sums_)
      all = all + sums;
    const auto length = static_cast<C>(rule_.length(all, strips_.size, rates_.at));
    each_strip([&](std::int64_t i) { go(strips_.strip(i), length); });
  }

 private:
  template <class F>
  void each_strip(const F& f) {
    parallel_for(strips_.count, 4, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i)
        f(i);
    });
  }
  C grad(std::int64_t i) const { return step_.form.of(static_cast<C>(static_cast<const T*>(piece_.grad)[i])); }
  // With all its digits, where it is still what they round to.
  C weight(std::int64_t i) const {
    const C weight = static_cast<C>(static_cast<const T*>(piece_.weight)[i]);
    if constexpr (!std::is_same_v<T, C>) {
      if (piece_.master != nullptr && static_cast<C>(static_cast<T>(piece_.master[i])) == weight)
        return piece_.master[i];
    }
    return weight;
  }
  C* state(int i) const { return static_cast<C*>(piece_.state[i]); }

  // Rows at once, columns as sums of strips.
  void sum_strip(std::int64_t i) {
    const Strips::Strip at = strips_.strip(i);
    const std::int64_t columns = strips_.columns;
    for (std::int64_t row = at.begin / columns; row < at.end / columns; ++row) {
      C* const partial = partials_.data() + strips_.partial(i, row / strips_.rows);
      double sum = 0;
      for (std::int64_t first = 0; first < columns; first += k_block) {
        const std::int64_t n = std::min(k_block, columns - first);
        C squares[k_block];
        for (std::int64_t k = 0; k < n; ++k) {
          const C g = grad(row * columns + first + k);
          squares[k] = g * g;
          partial[first + k] += squares[k];
        }
        sum += sum_in_double(squares, n);
      }
      state(0)[row] = step_.mixed(state(0)[row], sum / static_cast<double>(columns));
    }
  }
  void update_means() {
    each_strip([&](std::int64_t i) { sum_strip(i); });
    const std::int64_t rows = strips_.rows, columns = strips_.columns;
    parallel_for(strips_.matrices() * columns, 4096, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const C* const partial = partials_.data() + i / columns * strips_.of_matrix * columns + i % columns;
        double sum = 0;
        for (std::int64_t k = 0; k < strips_.of_matrix; ++k)
          sum += static_cast<double>(partial[k * columns]);
        state(1)[i] = step_.mixed(state(1)[i], sum / static_cast<double>(rows));
      }
    });
    parallel_for(strips_.matrices(), 256, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t matrix = begin; matrix < end; ++matrix) {
        double sum = 0;
        for (std::int64_t row = matrix * rows; row < (matrix + 1) * rows; ++row)
          sum += static_cast<double>(state(0)[row]);
        means_[static_cast<std::size_t>(matrix)] = step_.at_least(static_cast<C>(sum / static_cast<double>(rows)));
      }
    });
  }

  /// Calls f(first place, variances, how many) for the elements of a strip, a block of a row at a time.
  template <class F>
  void each_block(const Strips::Strip& at, const F& f) const {
    const std::int64_t columns = strips_.factored() ? strips_.columns : at.end - at.begin;
    C variances[k_block];
    for (std::int64_t row = at.begin; row < at.end; row += columns) {
      for (std::int64_t first = 0; first < columns; first += k_block) {
        const std::int64_t n = std::min(k_block, columns - first);
        find_variances(row, first, n, variances);
        f(row + first, variances, n);
      }
    }
  }
  void find_variances(std::int64_t begin, std::int64_t first, std::int64_t n, C* to) const {
    if (!strips_.factored()) {
      std::copy_n(state(0) + begin + first, n, to);
      return;
    }
    const std::int64_t row = begin / strips_.columns, matrix = row / strips_.rows;
    const C of_row = state(0)[row] / means_[static_cast<std::size_t>(matrix)];
    const C* const of_column = state(1) + matrix * strips_.columns + first;
    for (std::int64_t k = 0; k < n; ++k)
      to[k] = of_row * of_column[k];
  }
  SquareSums<1> squares_of(const Strips::Strip& at) const {
    for (std::int64_t i = at.begin; !strips_.factored() && i < at.end; ++i) {
      const auto g = static_cast<double>(grad(i));
      state(0)[i] = step_.mixed(state(0)[i], g * g);
    }
    SquareSums<1> sums{};
    each_block(at, [&](std::int64_t first, const C* variances, std::int64_t n) {
      C along[k_block], weights[k_block];
      for (std::int64_t k = 0; k < n; ++k)
        along[k] = step_.square(grad(first + k), variances[k]);
      for (std::int64_t k = 0; k < n; ++k)
        weights[k] = weight(first + k);
      sums = sums + SquareSums<1>{sum_of_squares(weights, n), {sum_in_double(along, n)}};
    });
    return sums;
  }
  void go(const Strips::Strip& at, C length) const {
    each_block(at, [&](std::int64_t first, const C* variances, std::int64_t n) {
      for (std::int64_t i = first; i < first + n; ++i) {
        const C along = length * step_.direction(grad(i), variances[i - first]);
        const C w = step_.step(weight(i), along, state(2) == nullptr ? nullptr : state(2) + i);
        static_cast<T*>(piece_.weight)[i] = static_cast<T>(w);
        if constexpr (!std::is_same_v<T, C>) {
          if (piece_.master != nullptr)
            piece_.master[i] = w;
        }
      }
    });
  }

  const FactoredRule rule_;
  const UpdatePiece& piece_;
  const Strips strips_;
  const Rates<double> rates_;
  const FactoredStep<C> step_;
  std::vector<SquareSums<1>> sums_;
  std::vector<C> partials_;
  std::vector<C> means_;
};

}  // namespace

void factored_update_cpu(const UpdateWork& work) {
  for (const UpdatePiece& piece : work.pieces)
    by_floating(piece.dtype, [&]<class T>() { Factored<T>(work, piece).run(); });
}

}  // namespace sluice::detail
