// Rows in order on the CPU: by vectors where there are some (simd/sort.h). Which entries of equal ones come first is
// said by their places, so whatever sorts gives the same.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <type_traits>

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
    sort_all(keys_.get(), order_.n);
    for (std::int64_t i = 0; i < order_.kept; ++i)
      static_cast<E*>(order_.values)[to_ + i * order_.inner] = static_cast<E>(rule_.bits(keys_[i]));
  }

  void of_items() {
    reserve(order_.n);
    for (std::int64_t i = 0; i < order_.n; ++i)
      items_[i] = item(i);
    sort_all(items_.get(), order_.n);
    write();
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
    write();
  }

  void write() const {
    for (std::int64_t i = 0; i < order_.kept; ++i) {
      const std::int64_t at = to_ + i * order_.inner, from = items_[i].index();
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
  std::unique_ptr<Item<U>[]> items_;
};

}  // namespace

void order_cpu(const OrderCall& order, const KernelCall&) {
  const std::int64_t grain = std::max<std::int64_t>(1, 8192 / std::max<std::int64_t>(1, order.n));
  by_element_size(size_of(order.dtype), [&]<class E>() {
    parallel_for(order.rows(), grain, [&](std::int64_t begin, std::int64_t end) {
      RowSorter<E> sorter(order);
      for (std::int64_t row = begin; row < end; ++row)
        sorter.run(row);
    });
  });
}

}  // namespace sluice::detail
