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
    std::int64_t low = 0, count = n;
    while (count > 0) {
      const std::int64_t half = count / 2;
      const U other = rule.key(load_bits<U>(sorted, bytes, base + low + half), true);
      const bool before = right ? other <= key : other < key;
      low = before ? low + half + 1 : low;
      count = before ? count - half - 1 : half;
    }
    places[i] = low;
  }
};

void searchsorted_cpu(const KernelCall& call);
void searchsorted_gpu(const KernelCall& call);

}  // namespace sluice::detail
