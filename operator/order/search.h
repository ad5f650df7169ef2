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

  /// Of value i.
  SLUICE_HD void find(std::int64_t i) const noexcept {
    const U key = rule.key(load_bits<U>(values, bytes, i), true);
    const std::int64_t base = i / each * n;
    const auto before = [&](std::int64_t at) {
      const U other = rule.key(load_bits<U>(sorted, bytes, base + at), true);
      return right ? other <= key : other < key;
    };
    // Places that find_among_keys() looks at too: elements that are in no order give the same everywhere.
    std::int64_t low = 0, count = n;
    for (; count > 1; count -= count / 2)
      low += before(low + count / 2 - 1) ? count / 2 : 0;
    if (count == 1 && before(low))
      ++low;
    places[i] = low;
  }
};

void searchsorted_cpu(const KernelCall& call);
void searchsorted_gpu(const KernelCall& call);

}  // namespace sluice::detail
