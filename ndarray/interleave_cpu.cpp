// Copies that bring a few planes together, an element of each side by side (NCHW to NHWC of an image), or part them
// again: for what is too narrow to be turned in squares. One loop for each number of planes.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include <sluice/ndarray/detail/cast_loops.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/ndarray/plan_beside.h>
#include <sluice/ndarray/planes.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_unit = 2048;  // elements of a plane at a time

template <int Count, class T>
void bring_together(T* to, const T* planes, std::int64_t step, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    for (int plane = 0; plane < Count; ++plane)
      to[i * Count + plane] = planes[plane * step + i];
  }
}

template <int Count, class T>
void part(T* planes, const T* from, std::int64_t step, std::int64_t n) noexcept {
  for (std::int64_t i = 0; i < n; ++i) {
    for (int plane = 0; plane < Count; ++plane)
      planes[plane * step + i] = from[i * Count + plane];
  }
}

template <int Count, class T>
void run_planes(const CopyPlan& plan, const Planes& planes, T* to, const T* from) {
  const std::int64_t n = plan.extents[planes.along], units = (n + k_unit - 1) / k_unit;
  const std::int64_t step = plan.strides[planes.together ? 1 : 0][planes.across];
  const CopyPlan outer = plan_beside(plan, std::min(planes.along, planes.across));  // the other of them is innermost
  const std::int64_t grain = std::max<std::int64_t>(1, k_copy_grain / (std::min(n, k_unit) * Count));
  parallel_for(outer.size * units, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % units * k_unit, count = std::min(k_unit, n - first), which = unit / units;
      walk_runs(outer, which, which + 1, [&](const StridedRun<2>& run) {
        T* const target = to + run.offset[0];
        const T* const source = from + run.offset[1];
        if (planes.together)
          bring_together<Count>(target + first * Count, source + first, step, count);
        else
          part<Count>(target + first, source + first * Count, step, count);
      });
    }
  });
}

template <class T>
bool interleave(const CopyPlan& plan, void* to, const void* from) {
  const std::optional<Planes> found = find_planes(plan);
  if (!found)
    return false;
  const Planes& planes = *found;
  const auto run = [&]<int... Count>(std::integer_sequence<int, Count...>) {
    const std::int64_t count = plan.extents[planes.across];
    ((count == Count + 2 ? run_planes<Count + 2>(plan, planes, static_cast<T*>(to), static_cast<const T*>(from))
                         : void()),
     ...);
  };
  run(std::make_integer_sequence<int, k_most_planes - 1>{});
  return true;
}

}  // namespace

bool interleave_on_cpu(const CopyPlan& plan, void* to, const void* from, std::size_t element) {
  return by_element_size(element, [&]<class T>() { return interleave<T>(plan, to, from); });
}

}  // namespace sluice::detail
