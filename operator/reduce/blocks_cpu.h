#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include <sluice/operator/reduce/cascade_cpu.h>
#include <sluice/operator/reduce/terms_cpu.h>
#include <sluice/operator/simd/arg_rows.h>
#include <sluice/operator/simd/softmax_rows.h>
#include <sluice/operator/simd/sum_rows.h>

// Blocks of states that are not one number: worked out in passes over neighbours that are in the cache, each of which
// is one number and so runs in vectors. What passes cannot do goes term by term, for reasons of the numbers alone.
namespace sluice::detail {

/// ExtremeOf with its questions settled, so that loops over it have no branches.
template <class T, bool Largest, bool Absolute>
struct SettledExtremeOf : ExtremeOf<T> {
  using Acc = Accumulator<T>;
  SettledExtremeOf() noexcept : ExtremeOf<T>{Largest, Absolute} {}

  template <class X>
  Acc lift(X x) const noexcept {
    const Acc value = to_accumulator(x);
    return Absolute ? magnitude_of(value) : value;
  }
  Acc join(Acc a, Acc b) const noexcept {
    const bool keeps = (Largest ? a >= b : a <= b) | is_nan(a);
    return keeps ? a : b;
  }
};

/// ChangedSumOf in the same way.
template <class T, bool Absolute>
struct SettledSumOf : ChangedSumOf<T> {
  using Acc = Accumulator<T>;
  SettledSumOf() noexcept : ChangedSumOf<T>{Absolute} {}

  template <class X>
  Acc lift(X x) const noexcept {
    const Acc value = to_accumulator(x);
    return Absolute ? magnitude_of(value) : is_nan(value) ? Acc{0} : value;
  }
};

/// What joins neighbours of such a state in vectors; null where the plain loops do.
template <class T, bool Largest>
const simd::ArgRows<Accumulator<T>>* vectors_of(const SettledExtremeOf<T, Largest, false>&) noexcept {
  return simd::arg_rows<Accumulator<T>>(Largest);
}

/// Joins a term each to n neighbouring outputs, in vectors; false where the plain loops do.
template <class T, bool Largest>
bool join_neighbours(
    const SettledExtremeOf<T, Largest, false>& op,
    const Accumulator<T>* x,
    std::int64_t n,
    Accumulator<T>* to) noexcept {
  const auto* const vectors = vectors_of(op);
  if (vectors != nullptr)
    vectors->keep(x, n, to);
  return vectors != nullptr;
}
template <class T>
bool join_neighbours(const SumOf<T>&, const T* x, std::int64_t n, Accumulator<T>* to) noexcept
    requires(!std::is_integral_v<T>) {
  const simd::ColumnSums<T> add = simd::column_sums<T>();
  if (add != nullptr)
    add(x, n, to);
  return add != nullptr;
}
template <class T>
bool join_neighbours(const ExponentialsOf<T>&, const float* x, std::int64_t n, Exponentials<float>* to) noexcept {
  static_assert(sizeof(*to) == 2 * sizeof(float));
  const simd::SoftmaxRows* const rows = simd::softmax_rows();
  if (rows != nullptr)
    rows->join(x, n, &to->largest);
  return rows != nullptr;
}

/// Calls f(state) with a state that loops are compiled for.
template <class Op, class F>
void with_settled(const Op& op, const F& f) {
  f(op);
}
template <class T, class F>
void with_settled(const ExtremeOf<T>& op, const F& f) {
  if (!op.largest) {
    f(SettledExtremeOf<T, false, false>());
  } else if (op.absolute) {
    f(SettledExtremeOf<T, true, true>());
  } else {
    f(SettledExtremeOf<T, true, false>());
  }
}

template <class T, class F>
void with_settled(const ChangedSumOf<T>& op, const F& f) {
  if (op.absolute) {
    f(SettledSumOf<T, true>());
  } else {
    f(SettledSumOf<T, false>());
  }
}

/// What vectors work out of a block of such a state, whose partial results are numbers of the terms' type.
template <class Op>
inline constexpr simd::RowSum k_row_sum = simd::RowSum::none;
template <class T>
inline constexpr simd::RowSum k_row_sum<SumOf<T>> = simd::RowSum::terms;
template <class T>
inline constexpr simd::RowSum k_row_sum<ProductOf<T>> = simd::RowSum::product;
template <class T>
inline constexpr simd::RowSum k_row_sum<SettledSumOf<T, true>> = simd::RowSum::magnitudes;
template <class T>
inline constexpr simd::RowSum k_row_sum<SettledSumOf<T, false>> = simd::RowSum::numbers;

/// Whether they do of terms T, which are those of the state or floats that were made of them.
template <class Op, class T>
inline constexpr bool k_in_row_sums =
    k_row_sum<Op> != simd::RowSum::none && !std::is_integral_v<T> && std::is_same_v<Accumulator<T>, typename Op::Acc>;

/// Sum of distances.
template <class T>
struct DistancesFrom {
  using Acc = T;
  T from = 0;
  static Acc identity() noexcept { return 0; }
  Acc lift(T x) const noexcept { return x - from; }
  Acc join(Acc a, Acc b) const noexcept { return a + b; }
};

/// Sum of squares of distances.
template <class T>
struct SquaredDistancesFrom {
  using Acc = T;
  T from = 0;
  static Acc identity() noexcept { return 0; }
  Acc lift(T x) const noexcept { return (x - from) * (x - from); }
  Acc join(Acc a, Acc b) const noexcept { return a + b; }
};

/// A block of neighbours, of a state that has passes for it.
template <class T, bool Largest, class A>
A block_in_passes(const SettledExtremeOf<T, Largest, false>& op, const A* x, std::int64_t n) noexcept requires
    std::is_same_v<A, Accumulator<T>> {
  const auto* const vectors = vectors_of(op);
  return vectors == nullptr ? reduce_block(op, x, n, 1) : vectors->best(x, n);
}

template <class Op, class T>
std::enable_if_t<k_in_row_sums<Op, T>, Accumulator<T>> block_in_passes(
    const Op& op, const T* x, std::int64_t n) noexcept {
  Accumulator<T> sum;
  const simd::RowSums<T> vectors = simd::row_sums<T>(k_row_sum<Op>);
  if (vectors == nullptr)
    return reduce_block(op, x, n, 1);
  vectors(x, n, n, &sum);
  return sum;
}

template <class T, class A>
Moments<A> block_in_passes(const MomentsOf<T>& op, const A* x, std::int64_t n) noexcept {
  // Around the first, so that what is constant has no distances; then less what the mean was rounded by (Chan, Golub
  // and LeVeque, "Algorithms for computing the sample variance", 1983).
  const A terms = static_cast<A>(n), mean = x[0] + reduce_block(DistancesFrom<A>{x[0]}, x, n, 1) / terms;
  const A rest = reduce_block(DistancesFrom<A>{mean}, x, n, 1);
  const A squares = reduce_block(SquaredDistancesFrom<A>{mean}, x, n, 1) - rest * rest / terms;
  if (!std::isfinite(mean) || !std::isfinite(squares))
    return reduce_block(op, x, n, 1);
  return {terms, x[0], mean - x[0] + rest / terms, squares > 0 ? squares : 0};
}

/// Whether squares add up to this as they are. Beside so large a sum those that were lost are less than its last bit,
/// and none is larger than it, which so says that none is of a big number.
template <class T, class A>
bool is_middling(const SquaresOf<T>& op, A sum) noexcept {
  constexpr A k_enough = sizeof(A) == 8 ? static_cast<A>(0x1p-950) : static_cast<A>(0x1p-90);
  return sum >= k_enough && sum <= op.k_big * op.k_big;
}

template <class T, class A>
ScaledSquares<A> block_in_passes(const SquaresOf<T>& op, const A* x, std::int64_t n) noexcept {
  A sum;
  if (const simd::RowSums<A> vectors = simd::row_sums<A>(simd::RowSum::squares))
    vectors(x, n, n, &sum);
  else
    sum = reduce_block(SquaredDistancesFrom<A>(), x, n, 1);
  if (is_middling(op, sum))
    return {0, sum, 0};
  if (sum == 0 && reduce_block(SettledExtremeOf<A, true, true>(), x, n, 1) == 0)
    return {0, 0, 0};
  return reduce_block(op, x, n, 1);
}

template <class T, class A>
Exponentials<A> block_in_passes(const ExponentialsOf<T>& op, const A* x, std::int64_t n) noexcept {
  const A largest = block_in_passes(SettledExtremeOf<A, true, false>(), x, n);
  const simd::SoftmaxRows* const rows = simd::softmax_rows();
  if constexpr (std::is_same_v<A, float>) {
    if (std::isfinite(largest) && rows != nullptr)
      return {largest, static_cast<float>(rows->exp_sum(x, largest, n, nullptr, {}))};
  }
  return reduce_block(op, x, n, 1);
}

/// At most k_block_terms terms, `step` apart.
template <class Op, class T>
typename Op::Acc block_of(const Op& op, const T* x, std::int64_t n, std::int64_t step) noexcept {
  if (step != 1 || n < k_lanes)
    return reduce_block(op, x, n, step);
  if constexpr (k_converts<Op, T> && !k_in_row_sums<Op, T>) {
    float converted[k_block_terms];
    simd::convert(x, converted, n);
    return block_of(op, static_cast<const float*>(converted), n, 1);
  } else if constexpr (requires { block_in_passes(op, x, n); }) {
    return block_in_passes(op, x, n);
  } else {
    return reduce_block(op, x, n, 1);
  }
}

/// Terms of so many blocks are asked for at once where a state has vectors for that, or they are converted first.
template <class Op, class T>
inline constexpr std::int64_t k_blocks_at_once = k_in_row_sums<Op, T> || k_converts<Op, T> ? 16 : 1;
template <class T>
inline constexpr std::int64_t k_blocks_at_once<SquaresOf<T>, Accumulator<T>> = 16;
template <class T, bool Largest>
inline constexpr std::int64_t k_blocks_at_once<SettledExtremeOf<T, Largest, false>, Accumulator<T>> = 16;

/// Whether all blocks together give what they give one by one: nothing is rounded.
template <class Op>
inline constexpr bool k_is_one_block = false;
template <class T, bool Largest>
inline constexpr bool k_is_one_block<SettledExtremeOf<T, Largest, false>> = true;

template <class Op>
inline constexpr bool k_is_of_squares = false;
template <class T>
inline constexpr bool k_is_of_squares<SquaresOf<T>> = true;

/// Neighbours in blocks, `sums` of them, of a state whose blocks are not one number perhaps; false if they are not.
template <class T>
bool take_sums(
    const SquaresOf<T>& op, const Accumulator<T>* sums, std::int64_t n, Cascade<SquaresOf<T>>& blocks) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    if (!is_middling(op, sums[i]))
      return false;
  }
  for (std::int64_t i = 0; i < n; ++i)
    blocks.add({0, sums[i], 0});
  return true;
}
template <class Op>
bool take_sums(const Op&, const typename Op::Acc* sums, std::int64_t n, Cascade<Op>& blocks) noexcept {
  for (std::int64_t i = 0; i < n; ++i)
    blocks.add(sums[i]);
  return true;
}

/// At most k_blocks_at_once of them, joined as a Cascade joins blocks.
template <class Op, class T>
typename Op::Acc blocks_of(const Op& op, const T* x, std::int64_t n, std::int64_t step) noexcept {
  if (n <= k_block_terms)
    return block_of(op, x, n, step);
  if constexpr (k_converts<Op, T> && !k_in_row_sums<Op, T>) {
    if (step == 1) {
      float converted[k_blocks_at_once<Op, T> * k_block_terms];
      simd::convert(x, converted, n);
      return blocks_of(op, static_cast<const float*>(converted), n, 1);
    }
  }
  if constexpr (k_is_one_block<Op> && std::is_same_v<T, typename Op::Acc>) {
    if (step == 1)
      return block_in_passes(op, x, n);
  }
  Cascade<Op> blocks(op);
  if constexpr (k_in_row_sums<Op, T> || (k_is_of_squares<Op> && std::is_same_v<T, Accumulator<T>>)) {
    constexpr simd::RowSum k_kind = k_in_row_sums<Op, T> ? k_row_sum<Op> : simd::RowSum::squares;
    const simd::RowSums<T> vectors = simd::row_sums<T>(k_kind);
    if (step == 1 && vectors != nullptr) {
      // What is left over of too few terms for lanes is added up in another order.
      const std::int64_t left = n % k_block_terms < k_lanes ? n % k_block_terms : 0;
      Accumulator<T> of_block[k_blocks_at_once<Op, T>];
      vectors(x, n - left, k_block_terms, of_block);
      if (take_sums(op, of_block, (n - left + k_block_terms - 1) / k_block_terms, blocks)) {
        if (left > 0)
          blocks.add(block_of(op, x + n - left, left, 1));
        return blocks.total();
      }
    }
  }
  for (std::int64_t i = 0; i < n; i += k_block_terms)
    blocks.add(block_of(op, x + i * step, std::min(k_block_terms, n - i), step));
  return blocks.total();
}

/// Terms [begin, end) of the output whose first one is element `from`; `rest`: so many elements from term `begin` on
/// are asked for before others.
template <class Op, class T>
typename Op::Acc reduce_row(
    const Op& op,
    TermReader<T>& x,
    std::int64_t from,
    const StridedPlan<1>& terms,
    std::int64_t begin,
    std::int64_t end,
    std::int64_t rest) {
  // Where runs end in between, blocks would be joined in another order than those that are made.
  const bool one_by_one = x.is_made() || terms.ndim != 1;
  const std::int64_t most = one_by_one ? k_block_terms : k_block_terms * k_blocks_at_once<Op, T>;
  if (terms.ndim == 1 && end - begin <= most) {
    const std::int64_t step = terms.inner_stride(0);
    return blocks_of(op, x.at(from + begin * step, end - begin, rest), end - begin, step);
  }
  Cascade<Op> blocks(op);
  walk_runs(terms, begin, end, [&](const StridedRun<1>& run) {
    for (std::int64_t i = 0; i < run.count; i += most) {
      const std::int64_t n = std::min(most, run.count - i);
      const std::int64_t left = terms.ndim == 1 ? rest - i : run.count - i;
      blocks.add(blocks_of(op, x.at(from + run.offset[0] + i * run.step[0], n, left), n, run.step[0]));
    }
  });
  return blocks.total();
}

}  // namespace sluice::detail
