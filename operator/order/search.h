#pragma once

#include <cstdint>

#include <sluice/operator/operator.h>
#include <sluice/operator/order/keys.h>

namespace sluice::detail {

struct SearchAttributes {
  bool right = false;

  template <class V>
  void visit(V&& v) {
    v.field("right", right);
  }
};

/// Where keys of values stand among those of sorted elements, rows of n.
template <class U>
struct Search {
  const void* sorted;
  const void* values;
  std::int64_t* places;
  std::int64_t n;
  std::int64_t each;  // values a row of sorted ones
  std::size_t bytes;  // of an element
  KeyRule<U> rule;
  bool right;

  explicit Search(const KernelCall& call)
      : sorted(call.inputs[0].data),
        values(call.inputs[1].data),
        places(call.outputs[0].as<std::int64_t>()),
        n(call.inputs[0].shape[call.inputs[0].shape.ndim() - 1]),
        each(call.outputs[0].size),
        bytes(size_of(call.inputs[0].dtype)),
        rule(call.inputs[0].dtype, false),
        right(call.attributes.as<SearchAttributes>().right) {
    if (call.inputs[0].shape.ndim() > 1)
      each = call.inputs[1].shape[call.inputs[1].shape.ndim() - 1];
  }

  SLUICE_HD U key_of(std::int64_t i) const noexcept { return rule.key(load_bits<U>(values, bytes, i), true); }
  SLUICE_HD U sorted_key(std::int64_t i) const noexcept { return rule.key(load_bits<U>(sorted, bytes, i), true); }

  /// Of value i.
  SLUICE_HD void find(std::int64_t i) const noexcept {
    const U key[1] = {key_of(i)};
    std::int64_t place[1];
    const std::int64_t base = i / each * n;
    find_each(key, place, n, [&](std::int64_t at) { return sorted_key(base + at); });
    places[i] = place[0];
  }
  /// Of some values at once, among `count` keys.
  template <int V, class I, class KeyAt>
  SLUICE_HD void find_each(const U (&keys)[V], I (&low)[V], I count, const KeyAt& key_at) const noexcept {
    const auto before = [&](I at, U key) {
      const U other = key_at(at);
      return right ? other <= key : other < key;
    };
    for (I& at : low)
      at = 0;
    // Places that find_among_keys() looks at too: elements that are in no order give the same everywhere.
    for (; count > 1; count -= count / 2) {
      const I half = count / 2;
      for (int j = 0; j < V; ++j)
        low[j] += before(low[j] + half - 1, keys[j]) ? half : I{0};
    }
    for (int j = 0; j < V && count == 1; ++j)
      low[j] += before(low[j], keys[j]) ? I{1} : I{0};
  }
};

void searchsorted_cpu(const KernelCall& call);
void searchsorted_gpu(const KernelCall& call);

}  // namespace sluice::detail
