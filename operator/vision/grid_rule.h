#pragma once

// Numbers of grids, from -1 to 1, as places counted in pixels, the same on CPU and GPU.
#include <cmath>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>

namespace sluice {

/// What numbers of a grid mean on planes of `height` rows and `width` columns.
struct GridPlacesAttributes {
  std::int64_t height = 1, width = 1;
  bool border = false, reflection = false, align_corners = false;

  template <class V>
  void visit(V&& v) {
    v.field("height", height);
    v.field("width", width);
    v.field("border", border);
    v.field("reflection", reflection);
    v.field("align_corners", align_corners);
  }
};

namespace detail {

extern const Operator k_grid_places, k_grid_places_backward;

// grid -> rows, columns
void grid_places_cpu(const KernelCall& call);
void grid_places_gpu(const KernelCall& call);
// gradients of rows and of columns, grid -> gradient of grid
void grid_places_backward_cpu(const KernelCall& call);
void grid_places_backward_gpu(const KernelCall& call);

/// Along one axis.
template <class C>
struct GridRule {
  C size = 1;
  bool border = false, reflection = false, align_corners = false;

  struct Place {
    C at, slope;  // and how it grows with the number
  };
  SLUICE_HD Place place(C number) const {
    // Not each number of pixels is a C: of large planes a pixel near the last one stands for it.
    const C last = size - 1 < size ? size - 1 : std::nextafter(size, C(0));
    Place made;
    made.at = align_corners ? (number + 1) * (last / 2) : ((number + 1) * size - 1) * C(0.5);
    made.slope = align_corners ? last / 2 : size / 2;
    if (border)
      return clipped(made, last);
    return reflection ? mirrored(made, last) : made;
  }

 private:
  SLUICE_HD static Place clipped(Place made, C last) {
    if (!(made.at >= 0 && made.at <= last))
      made.slope = 0;
    made.at = made.at < 0 ? C(0) : made.at > last ? last : made.at;
    return made;
  }
  // At the ends of the plane: its outer edges, or the middles of its outermost pixels.
  SLUICE_HD Place mirrored(Place made, C last) const {
    if (!(std::abs(made.at) <= std::numeric_limits<C>::max()))  // what is infinitely far has no mirror image
      return {std::numeric_limits<C>::quiet_NaN(), 0};
    const C low = align_corners ? C(0) : C(-0.5), span = align_corners ? last : size;
    if (span <= 0)
      return {0, 0};
    const C from = made.at - low, distance = std::abs(from), turns = std::floor(distance / span);
    const C beyond = distance - turns * span;
    const bool turned = turns - 2 * std::floor(turns / 2) != 0;
    made.at = (turned ? span - beyond : beyond) + low;
    made.slope *= from == 0 ? C(0) : (from < 0) != turned ? C(-1) : C(1);
    return clipped(made, last);
  }
};

/// Rows and columns.
template <class C>
struct GridRules {
  GridRule<C> rows, columns;

  explicit GridRules(const GridPlacesAttributes& a)
      : rows{static_cast<C>(a.height), a.border, a.reflection, a.align_corners},
        columns{static_cast<C>(a.width), a.border, a.reflection, a.align_corners} {}

  SLUICE_HD void put(const C* grid, C* row, C* column, std::int64_t i) const {
    row[i] = rows.place(grid[2 * i + 1]).at;
    column[i] = columns.place(grid[2 * i]).at;
  }
  SLUICE_HD void put_gradient(const C* of_row, const C* of_column, const C* grid, C* to, std::int64_t i) const {
    to[2 * i] = of_column[i] * columns.place(grid[2 * i]).slope;
    to[2 * i + 1] = of_row[i] * rows.place(grid[2 * i + 1]).slope;
  }
};

}  // namespace detail
}  // namespace sluice
