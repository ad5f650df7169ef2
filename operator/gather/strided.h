#pragma once

#include <array>
#include <cstdint>

#include <sluice/ndarray/iterate.h>
#include <sluice/operator/gather/kernels.h>

// Entries of an array that lies in any way: a slice, axes in another order, something stretched. What is as long as the
// entries that are named lies row by row.
namespace sluice::detail {

/// Where an entry stands, in elements from the first one.
struct EntrySteps {
  int axes = 1;
  std::int64_t extents[k_max_ndim] = {};
  std::int64_t steps[k_max_ndim] = {};

  EntrySteps(const Placing& place, const Taking& taking, const TensorView& x) : axes(place.axes) {
    for (int i = 0; i < axes; ++i) {
      extents[i] = place.extents[i];
      steps[i] = x.strides[static_cast<int>(taking.axis) + i];
    }
  }
  SLUICE_HD std::int64_t offset(std::int64_t entry) const noexcept {
    std::int64_t offset = 0;
    for (int i = axes - 1; i > 0; --i) {
      const std::int64_t rest = entry / extents[i];
      offset += (entry - rest * extents[i]) * steps[i];
      entry = rest;
    }
    return offset + entry * steps[0];
  }
};

/// Walks what is named, row by row: operand 0 is the array without the axes that entries are of, operand 1 the place of
/// the number that names the entry.
inline StridedPlan<2> plan_entries(const Taking& taking, const TensorView& x, const Shape& named) {
  const int axis = static_cast<int>(taking.axis), numbers = named.ndim() - (x.shape.ndim() - taking.place.axes);
  Shape steps = Shape::filled(named.ndim(), 0), places = steps;
  for (int i = 0; i < axis; ++i)
    steps[i] = x.strides[i];
  for (int i = axis + numbers; i < named.ndim(); ++i)
    steps[i] = x.strides[i - numbers + taking.place.axes];
  std::int64_t step = 1;
  for (int i = axis + numbers; i-- > axis; step *= named[i])
    places[i] = step;
  return plan_strided<2>(named, {&steps, &places});
}

/// Elements of values from one to the next: none where one stands for all.
inline std::int64_t step_of_values(const TensorView& values) noexcept {
  return values.contiguous ? 1 : 0;
}

}  // namespace sluice::detail
