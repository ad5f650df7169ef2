#include <algorithm>
#include <cstring>

#include <sluice/engine/parallel.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/element_size.h>
#include <sluice/operator/walk/rows.h>

namespace sluice::detail {

namespace {

// Slices [begin, end) of the result, counted along the axis and before it.
template <class Row, class U>
void walk_slices(
    const KernelCall& call,
    const WalkNumbers& numbers,
    const AxisLayout& at,
    std::int64_t extent,
    std::int64_t begin,
    std::int64_t end) {
  const U* const from = call.inputs[0].as<const U>();
  U* to = call.outputs[0].as<U>() + begin * at.inner;
  U fill;
  std::memcpy(&fill, &numbers.value, sizeof fill);
  std::int64_t outer = begin / extent, o = begin % extent;
  for (std::int64_t slice = begin; slice < end; ++slice, to += at.inner) {
    const std::int64_t entry = Row::from(o, at.n, numbers.a, numbers.b);
    if (entry < 0) {
      std::fill_n(to, at.inner, fill);
    } else if (at.inner == 1) {
      *to = from[outer * at.n + entry];
    } else {
      std::copy_n(from + (outer * at.n + entry) * at.inner, at.inner, to);
    }
    if (++o == extent) {
      o = 0;
      ++outer;
    }
  }
}

template <class Row>
void walk_row(const KernelCall& call, const WalkNumbers& numbers) {
  const int axis = static_cast<int>(numbers.axis);
  const AxisLayout at = axis_layout(call.inputs[0].shape, axis);
  const std::int64_t extent = call.outputs[0].shape[axis];
  if (call.outputs[0].size == 0)
    return;
  by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() {
    const std::int64_t grain = std::max<std::int64_t>(1, (1 << 15) / at.inner);
    parallel_for(at.outer * extent, grain, [&](std::int64_t begin, std::int64_t end) {
      walk_slices<Row, U>(call, numbers, at, extent, begin, end);
    });
  });
}

}  // namespace

void walk_cpu(AxisWalk row, const KernelCall& call, const WalkNumbers& numbers) {
  with_walk(row, [&]<class Row>(Row) { walk_row<Row>(call, numbers); });
}

}  // namespace sluice::detail
