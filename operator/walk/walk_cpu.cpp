#include <algorithm>
#include <cstring>

#include <sluice/engine/parallel.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/element_size.h>
#include <sluice/operator/walk/rows.h>

namespace sluice::detail {

namespace {

// Elements [begin, end) of the result, in runs of one slice each.
template <class Row, class U>
void walk_elements(
    const KernelCall& call,
    const WalkNumbers& numbers,
    const AxisLayout& at,
    std::int64_t extent,
    std::int64_t begin,
    std::int64_t end) {
  const U* const from = call.inputs[0].as<const U>();
  U* to = call.outputs[0].as<U>() + begin;
  U fill;
  std::memcpy(&fill, &numbers.value, sizeof fill);
  const std::int64_t slice = begin / at.inner;
  std::int64_t outer = slice / extent, o = slice % extent, within = begin % at.inner;
  while (begin < end) {
    const std::int64_t entry = Row::from(o, at.n, numbers.a, numbers.b);
    const std::int64_t run = std::min(at.inner - within, end - begin);
    const std::int64_t source = (outer * at.n + entry) * at.inner + within;
    if (entry < 0) {
      std::fill_n(to, run, fill);
    } else if (run == 1) {
      *to = from[source];
    } else {
      std::copy_n(from + source, run, to);
    }
    to += run;
    begin += run;
    within = 0;
    if (++o == extent) {
      o = 0;
      ++outer;
    }
  }
}

template <class Form>
void walk_row(const KernelCall& call, const WalkNumbers& numbers) {
  const int axis = static_cast<int>(numbers.axis);
  const std::int64_t size = call.outputs[0].size;
  if (size == 0)
    return;
  const AxisLayout at = Form::of(axis_layout(call.inputs[0].shape, axis));
  const std::int64_t extent = Form::extent(call.outputs[0].shape[axis], numbers.a);
  by_element_size(size_of(call.inputs[0].dtype), [&]<class U>() {
    parallel_for(size, 1 << 15, [&](std::int64_t begin, std::int64_t end) {
      walk_elements<typename Form::Row, U>(call, numbers, at, extent, begin, end);
    });
  });
}

}  // namespace

void walk_cpu(AxisWalk row, const KernelCall& call, const WalkNumbers& numbers) {
  with_walk(row, [&]<class Form>(Form) { walk_row<Form>(call, numbers); });
}

}  // namespace sluice::detail
