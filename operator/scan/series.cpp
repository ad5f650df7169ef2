#include <algorithm>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/scan/scan.h>
#include <sluice/operator/scan/series.h>
#include <sluice/operator/view/arranged.h>
#include <sluice/operator/walk/walk.h>

namespace sluice {

NDArray ediff1d(const NDArray& x, const NDArray& to_end, const NDArray& to_begin, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "ediff1d");
    std::vector<NDArray> parts;
    if (to_begin.defined())
      parts.push_back(ravel(to_begin, site));
    parts.push_back(diff(ravel(x, site), 1, 0, site));
    if (to_end.defined())
      parts.push_back(ravel(to_end, site));
    return parts.size() == 1 ? parts[0] : concat(parts, 0, site);
  });
}

NDArray vander(const NDArray& x, std::optional<std::int64_t> n, bool increasing, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const int ndim = detail::object_of(x, "vander").shape.ndim();
    require<ValueError>(ndim > 0, [] { return "vander: x has no axis"; });
    require<ValueError>(!n || *n >= 0, [&] { return message("vander: n is ", *n, ", which is negative"); });
    const std::int64_t columns = n ? *n : ndim == 1 ? x.shape()[0] : detail::extents_beside_batch(x)[ndim - 1];
    const NDArray column = x.expand_dims(ndim, site);
    Shape all = Shape::filled(ndim + 1, -1);
    all[ndim] = std::max<std::int64_t>(columns - 1, 0);
    // A product so far has a right gradient at 0 too, which a power has not.
    const NDArray factors = concat({ones_like(column, site), column.broadcast_to(all, site)}, ndim, site);
    const NDArray powers = cumprod(columns > 0 ? factors : factors.slice(ndim, 0, 0, 1, site), ndim, false, site);
    return increasing ? powers : flip(powers, ndim, site);
  });
}

}  // namespace sluice
