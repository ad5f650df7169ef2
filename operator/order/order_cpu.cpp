// Rows in order on the CPU: by vectors where there are some (simd/sort.h). Which entries of equal ones come first is
// said by their places, so whatever sorts gives the same.
#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <numeric>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/element_size.h>
#include <sluice/operator/order/keys.h>
#include <sluice/operator/simd/sort.h>

namespace sluice::detail {

namespace {

void sort_all(std::uint32_t* keys, std::int64_t n) {
  if (!simd::sort_keys(keys, n))
    std::sort(keys, keys + n);
}
void sort_all(std::uint64_t* keys, std::int64_t n) {
  if (!simd::sort_keys(keys, n))
    std::sort(keys, keys + n);
}
void sort_all(Item<std::uint32_t>* items, std::int64_t n) {
  static_assert(sizeof(*items) == sizeof(std::uint64_t));
  if (!simd::sort_keys(&items->both, n))
    std::sort(items, items + n);
}
void sort_all(Item<std::uint64_t>* items, std::int64_t n) {
  static_assert(sizeof(*items) == 2 * sizeof(std::uint64_t));
  if (!simd::sort_pairs(&items->low, n))
    std::sort(items, items + n);
}

/// Words in order on all workers: first in buckets by their highest bits, as far as these say anything, then bucket by
/// bucket. There is one order, whatever sorts.
template <class U>
void sort_in_buckets(std::unique_ptr<U[]>& words, std::int64_t n) {
  constexpr int k_bits = 8;
  constexpr std::int64_t k_least = 1 << 15;
  const auto [least, most] = std::minmax_element(words.get(), words.get() + n);
  const U from = n == 0 ? U{0} : *least, spread = n == 0 ? U{0} : static_cast<U>(*most - from);
  if (n < k_least || spread >> k_bits == 0)
    return sort_all(words.get(), n);
  const int shift = static_cast<int>(std::bit_width(spread)) - k_bits;
  std::array<std::int64_t, (1 << k_bits) + 1> begins{};
  for (std::int64_t i = 0; i < n; ++i)
    ++begins[static_cast<std::size_t>((words[i] - from) >> shift) + 1];
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  auto apart = std::make_unique_for_overwrite<U[]>(static_cast<std::size_t>(n));
  auto next = begins;
  for (std::int64_t i = 0; i < n; ++i)
    apart[next[static_cast<std::size_t>((words[i] - from) >> shift)]++] = words[i];
  words = std::move(apart);
  parallel_for(1 << k_bits, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t bucket = begin; bucket < end; ++bucket)
      sort_all(words.get() + begins[bucket], begins[bucket + 1] - begins[bucket]);
  });
}

/// Rows of elements E, one after the other, with memory for one.
template <class E>
class RowSorter {
 public:
  using U = std::conditional_t<sizeof(E) == 8, std::uint64_t, std::uint32_t>;

  explicit RowSorter(const OrderCall& order) : order_(order), rule_(order.dtype, order.descending) {}

  void run(std::int64_t row) {
    const std::int64_t outer = row / order_.inner, j = row % order_.inner;
    x_ = static_cast<const E*>(order_.x) + outer * order_.n * order_.inner + j;
    to_ = outer * order_.kept * order_.inner + j;
    if (order_.indices == nullptr)
      of_keys();
    else if (order_.kept <= order_.n / 4)
      of_best();
    else
      of_items();
  }

 private:
  U key(std::int64_t i, bool same_zeros) const noexcept {
    return rule_.key(static_cast<U>(x_[i * order_.inner]), same_zeros);
  }
  Item<U> item(std::int64_t i) const noexcept { return {key(i, true), static_cast<std::uint32_t>(i)}; }

  void of_keys() {
    if (!keys_)
      keys_ = std::make_unique_for_overwrite<U[]>(static_cast<std::size_t>(order_.n));
    for (std::int64_t i = 0; i < order_.n; ++i)
      keys_[i] = key(i, false);
    sort_in_buckets(keys_, order_.n);
    for (std::int64_t i = 0; i < order_.kept; ++i)
      static_cast<E*>(order_.values)[to_ + i * order_.inner] = static_cast<E>(rule_.bits(keys_[i]));
  }

  // A key's highest bits and its place are one word, which sorts in half the time of two.
  void of_items() {
    const std::int64_t n = order_.n;
    if (!words_)
      words_ = std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>(n));
    U least = n == 0 ? U{0} : key(0, true), most = least;
    for (std::int64_t i = 1; i < n; ++i) {
      least = std::min(least, key(i, true));
      most = std::max(most, key(i, true));
    }
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<U>(most - least))) - 32);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto high = static_cast<std::uint32_t>(static_cast<U>(key(i, true) - least) >> shift);
      words_[i] = std::uint64_t{high} << 32 | static_cast<std::uint32_t>(i);
    }
    sort_in_buckets(words_, n);
    if (shift > 0)
      order_alike();
    write([&](std::int64_t i) { return static_cast<std::uint32_t>(words_[i]); });
  }

  // Those that are alike in their highest bits, by all of them.
  void order_alike() {
    const auto high = [&](std::int64_t i) { return words_[i] >> 32; };
    std::vector<Item<U>> alike;
    for (std::int64_t begin = 0, end = 1; begin < order_.n; begin = end++) {
      while (end < order_.n && high(end) == high(begin))
        ++end;
      if (end - begin == 1)
        continue;
      alike.clear();
      for (std::int64_t i = begin; i < end; ++i)
        alike.push_back(item(static_cast<std::uint32_t>(words_[i])));
      if (alike.size() < 32)
        std::sort(alike.begin(), alike.end());
      else
        sort_all(alike.data(), end - begin);
      for (std::int64_t i = begin; i < end; ++i)
        words_[i] = alike[i - begin].index();
    }
  }

  // Most entries are no better than the kept'th best so far, and never looked at again: later ones of equal keys are
  // worse.
  void of_best() {
    const std::int64_t kept = order_.kept, room = 2 * kept + 1024;
    if (kept == 0)
      return;
    reserve(room);
    std::int64_t count = 0;
    bool full = false;
    U worst = 0;
    for (std::int64_t i = 0; i < order_.n; ++i) {
      const U next = key(i, true);
      if (full && next >= worst)
        continue;
      items_[count++] = {next, static_cast<std::uint32_t>(i)};
      if (count == room || (!full && count == kept)) {
        std::nth_element(items_.get(), items_.get() + kept - 1, items_.get() + count);
        worst = items_[kept - 1].key();
        count = kept;
        full = true;
      }
    }
    if (count > kept)
      std::nth_element(items_.get(), items_.get() + kept - 1, items_.get() + count);
    sort_all(items_.get(), kept);
    write([&](std::int64_t i) { return items_[i].index(); });
  }

  template <class PlaceOf>
  void write(const PlaceOf& place_of) const {
    for (std::int64_t i = 0; i < order_.kept; ++i) {
      const std::int64_t at = to_ + i * order_.inner, from = place_of(i);
      order_.indices[at] = from;
      if (order_.values != nullptr)
        static_cast<E*>(order_.values)[at] = x_[from * order_.inner];
    }
  }

  void reserve(std::int64_t items) {
    if (!items_)
      items_ = std::make_unique_for_overwrite<Item<U>[]>(static_cast<std::size_t>(items));
  }

  const OrderCall& order_;
  KeyRule<U> rule_;
  const E* x_ = nullptr;
  std::int64_t to_ = 0;
  std::unique_ptr<U[]> keys_;
  std::unique_ptr<std::uint64_t[]> words_;
  std::unique_ptr<Item<U>[]> items_;
};

}  // namespace

void order_cpu(const OrderCall& order, const KernelCall&) {
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, order.n));
  if (order_short_cpu(order, grain))
    return;
  by_element_size(size_of(order.dtype), [&]<class E>() {
    parallel_for(order.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      RowSorter<E> sorter(order);
      for (std::int64_t row = begin; row < end; ++row)
        sorter.run(row);
    });
  });
}

}  // namespace sluice::detail
