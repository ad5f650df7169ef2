#include <algorithm>
#include <cstring>
#include <type_traits>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/walk/rows.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_run = 64;

/// Writes k_run entries of one element from entry o on where they are neighbours in either order; false elsewhere. No
/// row goes on from one entry to the next but by 1, so that the ends tell; the one in the middle tells of those that
/// begin anew.
template <class Row, class U>
bool write_run(const U* row, U* to, std::int64_t o, std::int64_t n, const WalkNumbers& numbers) {
  const auto entry = [&](std::int64_t further) { return Row::from(o + further, n, numbers.a, numbers.b); };
  const std::int64_t first = entry(0), middle = entry(k_run / 2) - first, last = entry(k_run - 1) - first;
  if (first < 0)
    return false;
  if (middle == k_run / 2 && last == k_run - 1) {
    std::copy_n(row + first, k_run, to);
    return true;
  }
  if (middle == -k_run / 2 && last == 1 - k_run) {
    std::reverse_copy(row + first + last, row + first + 1, to);
    return true;
  }
  return false;
}

// Elements [begin, end) of the result, in runs of one slice each, or of several that are one element.
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
    if (at.inner == 1 && o + k_run <= extent && begin + k_run <= end &&
        write_run<Row>(from + outer * at.n, to, o, at.n, numbers)) {
      to += k_run;
      begin += k_run;
      o += k_run;
      if (o == extent) {
        o = 0;
        ++outer;
      }
      continue;
    }
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

/// Entries of one element R times each: a loop that compilers make vectors of.
template <int R, class U>
void spread(const KernelCall& call, std::int64_t entries) {
  const U* const from = call.inputs[0].as<const U>();
  U* const to = call.outputs[0].as<U>();
  parallel_for(entries, (1 << 15) / R, [from, to](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      for (int k = 0; k < R; ++k)
        to[R * i + k] = from[i];
    }
  });
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
    if constexpr (std::is_same_v<typename Form::Row, Again>) {
      if (at.inner == 1 && extent == 2)
        return spread<2, U>(call, at.outer);
      if (at.inner == 1 && extent == 4)
        return spread<4, U>(call, at.outer);
    }
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
