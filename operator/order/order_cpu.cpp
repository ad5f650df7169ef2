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
#include <sluice/ndarray/element_size.h>
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

/// How words from `least` on are put into buckets: by the `bits` bits above the lowest `shift`.
template <class U>
struct Buckets {
  static constexpr int most_bits = 8;
  using Begins = std::array<std::int64_t, (1 << most_bits) + 1>;
  U least;
  int bits, shift;

  std::int64_t count() const noexcept { return std::int64_t{1} << bits; }
  /// Moves n words into their buckets; bucket b's lie at [begins[b], begins[b + 1]) then.
  Begins part(const U* words, std::int64_t n, U* to) const noexcept {
    const Buckets here = *this;
    const auto bucket = [here](U word) { return static_cast<std::size_t>((word - here.least) >> here.shift); };
    Begins begins{};
    for (std::int64_t i = 0; i < n; ++i)
      ++begins[bucket(words[i]) + 1];
    std::partial_sum(begins.begin(), begins.end(), begins.begin());
    Begins next = begins;
    for (std::int64_t i = 0; i < n; ++i)
      to[next[bucket(words[i])]++] = words[i];
    return begins;
  }
};

/// n words, from `least` on and of a range of `width` bits, in order to `to`: in buckets that one network sorts, where
/// they lie about evenly.
template <class U>
void sort_bucket(const U* words, std::int64_t n, U least, int width, U* to) {
  constexpr std::int64_t k_small = 64;
  const int wanted = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(n / (2 * k_small))));
  const int bits = std::min({wanted, Buckets<U>::most_bits, width});
  if (bits == 0) {
    std::copy_n(words, n, to);
    return sort_all(to, n);
  }
  const Buckets<U> buckets{least, bits, width - bits};
  const auto begins = buckets.part(words, n, to);
  for (std::int64_t bucket = 0; bucket < buckets.count(); ++bucket)
    sort_all(to + begins[bucket], begins[bucket + 1] - begins[bucket]);
}

/// Words from `least` to `most` in order on all workers: first in buckets by their highest bits, as far as these say
/// anything, then bucket by bucket. There is one order, whatever sorts.
template <class U>
void sort_in_buckets(U* words, std::int64_t n, U least, U most) {
  constexpr std::int64_t k_least = 1 << 15;
  const int width = static_cast<int>(std::bit_width(static_cast<U>(most - least)));
  if (n < k_least || width <= Buckets<U>::most_bits)
    return sort_all(words, n);
  const Buckets<U> buckets{least, Buckets<U>::most_bits, width - Buckets<U>::most_bits};
  const auto apart = std::make_unique_for_overwrite<U[]>(static_cast<std::size_t>(n));
  const auto begins = buckets.part(words, n, apart.get());
  parallel_for(buckets.count(), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t bucket = begin; bucket < end; ++bucket) {
      const U first = static_cast<U>(least + (static_cast<U>(bucket) << buckets.shift));
      const std::int64_t from = begins[bucket], count = begins[bucket + 1] - from;
      sort_bucket(apart.get() + from, count, first, buckets.shift, words + from);
    }
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
  // What no word that is written can be a part of.
  struct Keys {
    KeyRule<U> rule;
    const E* x;
    std::int64_t step;
    bool same_zeros;

    Keys(const RowSorter& row, bool same) noexcept
        : rule(row.rule_), x(row.x_), step(row.order_.inner), same_zeros(same) {}
    U operator()(std::int64_t i) const noexcept { return rule.key(static_cast<U>(x[i * step]), same_zeros); }
  };
  U key(std::int64_t i, bool same_zeros) const noexcept { return Keys(*this, same_zeros)(i); }
  Item<U> item(std::int64_t i) const noexcept { return {key(i, true), static_cast<std::uint32_t>(i)}; }

  void of_keys() {
    if (!keys_)
      keys_ = std::make_unique_for_overwrite<U[]>(static_cast<std::size_t>(order_.n));
    const Keys key(*this, false);
    U* const keys = keys_.get();
    U least = order_.n == 0 ? U{0} : key(0), most = least;
    for (std::int64_t i = 0; i < order_.n; ++i) {
      keys[i] = key(i);
      least = std::min(least, keys[i]);
      most = std::max(most, keys[i]);
    }
    sort_in_buckets(keys, order_.n, least, most);
    for (std::int64_t i = 0; i < order_.kept; ++i)
      static_cast<E*>(order_.values)[to_ + i * order_.inner] = static_cast<E>(rule_.bits(keys_[i]));
  }

  // A key's highest bits and its place are one word, which sorts in half the time of two.
  void of_items() {
    const std::int64_t n = order_.n;
    if (!words_)
      words_ = std::make_unique_for_overwrite<std::uint64_t[]>(static_cast<std::size_t>(n));
    const Keys key(*this, true);
    std::uint64_t* const words = words_.get();
    U least = n == 0 ? U{0} : key(0), most = least;
    for (std::int64_t i = 1; i < n; ++i) {
      const U next = key(i);
      least = std::min(least, next);
      most = std::max(most, next);
    }
    const int shift = std::max(0, static_cast<int>(std::bit_width(static_cast<U>(most - least))) - 32);
    const auto word = [=](U key, std::int64_t i) {
      return static_cast<std::uint64_t>(static_cast<U>(key - least) >> shift) << 32 | static_cast<std::uint32_t>(i);
    };
    for (std::int64_t i = 0; i < n; ++i)
      words[i] = word(key(i), i);
    sort_in_buckets(words, n, std::uint64_t{0}, word(most, n));
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
