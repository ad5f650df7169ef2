// What has as many entries as values say: they are counted first, and asked for.
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/order/order.h>
#include <sluice/operator/order/places.h>
#include <sluice/operator/order/select.h>
#include <sluice/operator/reduce/reduce.h>
#include <sluice/operator/scan/scan.h>

namespace sluice {

namespace {

/// How many of a row of truths are true, for `name`. Waits.
std::int64_t count_of(const char* name, const NDArray& counted, SourceLocation site) {
  require<ValueError>(counted.object()->buffer != nullptr, [&] {
    return message(
        name,
        ": how many entries there are depends on values, and a program that is traced has none; where() and "
        "masked_fill() keep the shape, hybridize(false) ends it");
  });
  return counted.item<std::int64_t>(site);
}

/// Where a row of truths is true. Waits.
NDArray true_places(const char* name, const NDArray& truths, SourceLocation site) {
  const std::int64_t n = truths.shape()[0];
  const ArrayOptions places{.dtype = int64, .device = truths.device()};
  if (n == 0)
    return zeros({0}, places);
  const std::int64_t count = count_of(name, count_nonzero(truths, {}, false, site), site);
  return invoke_one(k_true_places, {truths}, Attributes::of(detail::TruePlacesAttributes{count}), site);
}

/// The entries of a row beside true ones. Waits.
NDArray true_entries(const char* name, const NDArray& row, const NDArray& truths, SourceLocation site) {
  const std::int64_t count = truths.shape()[0] == 0 ? 0 : count_of(name, count_nonzero(truths, {}, false, site), site);
  return invoke_one(k_true_entries, {row, truths}, Attributes::of(detail::TruePlacesAttributes{count}), site);
}

/// Entries of a sorted row that are not the one before.
NDArray first_ones(const NDArray& sorted, SourceLocation site) {
  return invoke_one(k_run_begins, {sorted}, Attributes(), site);
}

}  // namespace

NDArray nonzero(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape shape = detail::object_of(x, "nonzero").shape;
    const NDArray flat = x.detach().reshape({-1}, site);
    NDArray left = true_places("nonzero", flat.dtype() == bool_ ? flat : not_equal(flat, 0, site), site);
    if (shape.ndim() == 0)
      return left.reshape({left.shape()[0], 1}, site).slice(1, 0, 0, 1, site).copy(site);
    if (shape.ndim() == 1)
      return left.expand_dims(1, site);
    left = left.astype(float64);  // exact: no memory holds 2^50 elements
    std::int64_t beside = shape.size();
    std::vector<NDArray> columns;
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      beside /= shape[axis] == 0 ? 1 : shape[axis];
      const NDArray at = floor(left / static_cast<double>(beside == 0 ? 1 : beside));
      left = left - at * static_cast<double>(beside);
      columns.push_back(at.astype(int64));
    }
    return stack(columns, 1, site);
  });
}

NDArray boolean_mask(const NDArray& x, const NDArray& mask, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const Shape &shape = detail::object_of(x, "boolean_mask").shape,
                &over = detail::object_of(mask, "boolean_mask").shape;
    require<DTypeError>(
        mask.dtype() == bool_, [&] { return message("boolean_mask: a mask is bool, not ", mask.dtype()); });
    bool fits = over.ndim() > 0 && over.ndim() <= shape.ndim();
    Shape rows{over.size()};
    for (int axis = 0; fits && axis < shape.ndim(); ++axis) {
      if (axis >= over.ndim())
        rows.push_back(shape[axis]);
      else
        fits = shape[axis] == over[axis];
    }
    require<ShapeError>(fits, [&] { return message("boolean_mask: a mask of shape ", over, " over shape ", shape); });
    const NDArray row = x.reshape(rows, site), truths = mask.reshape({-1}, site);
    if (rows.ndim() == 1)
      return true_entries("boolean_mask", row, truths, site);
    return take(row, true_places("boolean_mask", truths, site), 0, IndexMode::raise, site);
  });
}

NDArray unique(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "unique");
    const NDArray sorted = sort(x.detach().reshape({-1}, site), 0, false, site);
    if (sorted.shape()[0] == 0)
      return sorted;
    return true_entries("unique", sorted, first_ones(sorted, site), site);
  });
}

Uniques unique_all(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> Uniques {
    const Shape shape = detail::object_of(x, "unique_all").shape;
    const NDArray flat = x.detach().reshape({-1}, site);
    const Ordered sorted = sort_with_indices(flat, 0, false, site);
    const std::int64_t n = flat.shape()[0];
    const ArrayOptions places{.dtype = int64, .device = x.device()};
    if (n == 0)
      return {sorted.values, sorted.indices, zeros(shape, places), zeros({0}, places)};
    const NDArray begins = first_ones(sorted.values, site), firsts = true_places("unique_all", begins, site);
    // Counted in the order and put back: searched for, denormals would be found apart, which are equal here.
    const NDArray ranks = cumsum(begins, 0, false, site) - 1;
    const Attributes along = Attributes::of(detail::PlacesAttributes{0, false});
    return {
        take(sorted.values, firsts, 0, IndexMode::raise, site),
        take(sorted.indices, firsts, 0, IndexMode::raise, site),
        invoke_one(k_put_places, {sorted.indices, ranks, flat}, along, site).reshape(shape, site),
        diff(concat({firsts, full({1}, n, places)}, 0, site), 1, 0, site)};
  });
}

}  // namespace sluice
