// Short rows in order on the CPU, many at once: their first elements side by side, their second ones, and so on, then
// whole such lines compared with each other, by a network that does the same for every row.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/order/keys.h>
#include <sluice/operator/simd/sort.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_longest = 32, k_fewest = 8;  // elements of a row, rows
constexpr std::int64_t k_beside = 64;                 // rows at a time

/// Rows of elements E. Words are keys, or with their places behind them where these are wanted.
template <class E, bool Places>
class ShortRows {
  using U = std::conditional_t<sizeof(E) == 8, std::uint64_t, std::uint32_t>;
  using Word = std::conditional_t<Places, std::uint64_t, U>;

 public:
  explicit ShortRows(const OrderCall& order)
      : order_(order),
        rule_(order.dtype, order.descending),
        keys_(std::make_unique<U[]>(static_cast<std::size_t>(order.n * k_beside))),
        words_(std::make_unique<Word[]>(static_cast<std::size_t>(order.n * k_beside))) {}

  void run(std::int64_t begin, std::int64_t end) {
    while (begin < end) {
      const std::int64_t j = begin % order_.inner;
      // Those behind each other along the axis alone go on from one slice into the next.
      const std::int64_t most = order_.inner == 1 ? k_beside : std::min(k_beside, order_.inner - j);
      const std::int64_t count = std::min(most, end - begin);
      const std::int64_t base = order_.inner == 1 ? 0 : begin - j;
      load(base * order_.n + (begin - base) * row_step(order_.n), count);
      simd::sort_columns(words_.get(), order_.n, count, k_beside);
      store(base, begin - base, count);
      begin += count;
    }
  }

 private:
  // From row to row, of so many elements each.
  std::int64_t row_step(std::int64_t n) const noexcept { return order_.inner == 1 ? n : 1; }

  static Word word(U key, std::int64_t place) noexcept {
    if constexpr (Places)
      return Word{key} << 32 | static_cast<std::uint32_t>(place);
    else
      return key;
  }

  void load(std::int64_t first, std::int64_t count) {
    const KeyRule<U> rule = rule_;
    const E* const x = static_cast<const E*>(order_.x) + first;
    const std::int64_t n = order_.n, inner = order_.inner;
    Word* const words = words_.get();
    if (inner > 1) {
      for (std::int64_t i = 0; i < n; ++i) {
        for (std::int64_t row = 0; row < count; ++row)
          words[i * k_beside + row] = word(rule.key(static_cast<U>(x[i * inner + row]), Places), i);
      }
      return;
    }
    U* const keys = keys_.get();
    for (std::int64_t i = 0; i < n * count; ++i)
      keys[i] = rule.key(static_cast<U>(x[i]), Places);
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < n; ++i)
        words[i * k_beside + row] = word(keys[row * n + i], i);
    }
  }

  void store(std::int64_t base, std::int64_t first, std::int64_t count) const {
    const std::int64_t n = order_.n, kept = order_.kept, inner = order_.inner;
    const std::int64_t from = base * n + first * row_step(n), to = base * kept + first * row_step(kept);
    const E* const x = static_cast<const E*>(order_.x) + from;
    E* const values = order_.values == nullptr ? nullptr : static_cast<E*>(order_.values) + to;
    std::int64_t* const indices = order_.indices == nullptr ? nullptr : order_.indices + to;
    const KeyRule<U> rule = rule_;
    const Word* const words = words_.get();
    const auto put = [&](std::int64_t row, std::int64_t i) {
      const Word word = words[i * k_beside + row];
      const std::int64_t at = row * row_step(kept) + i * inner;
      if constexpr (Places) {
        const std::int64_t place = static_cast<std::uint32_t>(word);
        indices[at] = place;
        if (values != nullptr)
          values[at] = x[row * row_step(n) + place * inner];
      } else {
        values[at] = static_cast<E>(rule.bits(word));
      }
    };
    if (inner > 1) {
      for (std::int64_t i = 0; i < kept; ++i) {
        for (std::int64_t row = 0; row < count; ++row)
          put(row, i);
      }
      return;
    }
    for (std::int64_t row = 0; row < count; ++row) {
      for (std::int64_t i = 0; i < kept; ++i)
        put(row, i);
    }
  }

  const OrderCall& order_;
  KeyRule<U> rule_;
  std::unique_ptr<U[]> keys_;
  std::unique_ptr<Word[]> words_;
};

template <class E, bool Places>
void order_rows(const OrderCall& order, std::int64_t grain) {
  parallel_for(
      order.rows(), grain, [&](std::int64_t begin, std::int64_t end) { ShortRows<E, Places>(order).run(begin, end); });
}

}  // namespace

bool order_short_cpu(const OrderCall& order, std::int64_t grain) {
  if (order.n < 2 || order.n > k_longest || order.rows() < k_fewest)
    return false;
  const bool places = order.indices != nullptr;
  if (places && size_of(order.dtype) == 8)  // no room for both in a word
    return false;
  by_element_size(size_of(order.dtype), [&]<class E>() {
    if constexpr (sizeof(E) < 8) {
      if (places)
        return order_rows<E, true>(order, grain);
    }
    order_rows<E, false>(order, grain);
  });
  return true;
}

}  // namespace sluice::detail
