// Arrays of a form, made of ranges, comparisons and where().
#include <algorithm>
#include <cmath>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/view/grids.h>

namespace sluice {

namespace {

// Numbers of columns minus numbers of rows.
NDArray distances(std::int64_t rows, std::int64_t columns, Device device, SourceLocation site) {
  const ArrayOptions numbers{.dtype = int64, .device = device};
  const NDArray row = arange(0, static_cast<double>(rows), 1, numbers, site).reshape({rows, 1}, site);
  return subtract(arange(0, static_cast<double>(columns), 1, numbers, site), row, site);
}

// Page-locked memory is said where an array is made.
NDArray placed(const NDArray& values, const ArrayOptions& options, SourceLocation site) {
  const NDArray made = values.astype(options.dtype, site);
  if (!options.pinned)
    return made;
  NDArray to = empty(made.shape(), options);
  copy_into(made, to, site);
  return to;
}

void check_extent(const char* op, const char* name, std::int64_t extent) {
  require<ShapeError>(extent >= 0, [&] { return message(op, ": ", name, " must not be negative, it is ", extent); });
}

// Rows and columns of the last two axes. Only as the first axis of all are rows what differs from batch to batch.
std::pair<std::int64_t, std::int64_t> matrix_of(const char* op, const NDArray& x) {
  const int axes = detail::object_of(x, op).shape.ndim();
  require<ShapeError>(
      axes >= 2, [&] { return message(op, ": an array of shape ", x.shape(), " has no two axes of a matrix"); });
  const Shape shape = axes > 2 ? detail::extents_beside_batch(x) : x.shape();
  return {shape[axes - 2], shape[axes - 1]};
}

}  // namespace

NDArray eye(
    std::int64_t rows,
    std::optional<std::int64_t> columns,
    std::int64_t k,
    const ArrayOptions& options,
    SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_extent("eye", "rows", rows);
    check_extent("eye", "columns", columns.value_or(0));
    return placed(equal(distances(rows, columns.value_or(rows), options.device, site), k, site), options, site);
  });
}

NDArray detail::even_steps(const NDArray& at, double low, double high, double count, SourceLocation site) {
  if (std::isfinite(high - low))
    return add(multiply(at, (high - low) / count, site), low, site);
  const NDArray part = divide(at, count, site);
  return add(multiply(subtract(1, part, site), low, site), multiply(part, high, site), site);
}

// The last one is `stop` itself, which start + n * step need not be.
NDArray linspace(double start, double stop, std::int64_t count, const ArrayOptions& options, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_extent("linspace", "count", count);
    require<ValueError>(std::isfinite(start) && std::isfinite(stop), [&] {
      return message("linspace: from ", start, " to ", stop, " is not a finite range");
    });
    const auto last = static_cast<double>(count - 1);
    const NDArray place = arange(0, static_cast<double>(count), 1, {.dtype = float64, .device = options.device}, site);
    NDArray values = detail::even_steps(place, start, stop, std::max(last, 1.0), site);
    if (count > 1)
      values = where(equal(place, last, site), stop, values, site);
    return placed(is_floating(options.dtype) ? values : floor(values, site), options, site);
  });
}

NDArray tril(const NDArray& x, std::int64_t k, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const auto [rows, columns] = matrix_of("tril", x);
    return where(less_equal(distances(rows, columns, x.device(), site), k, site), x, false, site);
  });
}

NDArray triu(const NDArray& x, std::int64_t k, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const auto [rows, columns] = matrix_of("triu", x);
    return where(greater_equal(distances(rows, columns, x.device(), site), k, site), x, false, site);
  });
}

std::vector<NDArray> meshgrid(const std::vector<NDArray>& arrays, GridOrder order, SourceLocation site) {
  return detail::located(site, [&]() -> std::vector<NDArray> {
    const int axes = static_cast<int>(arrays.size());
    require<ValueError>(arrays.size() <= static_cast<std::size_t>(k_max_ndim), [&] {
      return message("meshgrid: ", arrays.size(), " arrays, an array has ", k_max_ndim, " axes at most");
    });
    const auto axis_of = [&](int i) { return order == GridOrder::xy && i < 2 && axes > 1 ? 1 - i : i; };
    Shape whole = Shape::filled(axes, 1);
    for (int i = 0; i < axes; ++i) {
      const NDArray& each = arrays[static_cast<std::size_t>(i)];
      require<ShapeError>(detail::object_of(each, "meshgrid").shape.ndim() <= 1, [&] {
        return message("meshgrid: array ", i, " of shape ", each.shape(), " has more than one axis");
      });
      whole[axis_of(i)] = each.size();
    }
    std::vector<NDArray> grid;
    for (int i = 0; i < axes; ++i) {
      Shape along = Shape::filled(axes, 1);
      along[axis_of(i)] = -1;
      grid.push_back(arrays[static_cast<std::size_t>(i)].reshape(along, site).broadcast_to(whole, site));
    }
    return grid;
  });
}

}  // namespace sluice
