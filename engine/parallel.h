#pragma once

#include <cstdint>
#include <type_traits>

#include <sluice/engine/export.h>

namespace sluice {

namespace detail {
using RangeFunction = void (*)(void* context, std::int64_t begin, std::int64_t end);
SLUICE_API void parallel_ranges(std::int64_t n, std::int64_t grain, void* context, RangeFunction run);
}  // namespace detail

/// Calls body(begin, end) over disjoint ranges that cover [0, n), each of at least `grain` elements but the last.
/// Runs on the calling thread and on idle workers of its engine, which do nothing else meanwhile; returns when all
/// is done. Ranges run in any order, so the body must not depend on it. Rethrows the first exception of a range.
/// Called outside a task it uses the current engine's workers. Nested calls run on the calling thread alone.
template <class Body>
void parallel_for(std::int64_t n, std::int64_t grain, Body&& body) {
  if (n <= 0)
    return;
  using Plain = std::remove_reference_t<Body>;
  detail::parallel_ranges(
      n,
      grain,
      const_cast<void*>(static_cast<const void*>(&body)),
      [](void* context, std::int64_t begin, std::int64_t end) { (*static_cast<Plain*>(context))(begin, end); });
}

}  // namespace sluice
