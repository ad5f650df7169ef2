#include <algorithm>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/concat/stacks.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/view/arranged.h>

namespace sluice {

namespace {

using View = NDArray (*)(const NDArray& x, SourceLocation site);

NDArray as_columns(const NDArray& x, SourceLocation site) {
  return detail::unseen_shape(x).ndim() < 2 ? atleast_1d(x, site).expand_dims(1, site) : x;
}

NDArray stacked(const char* op, std::span<const NDArray> arrays, View view, int axis, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    require<ValueError>(!arrays.empty(), [&] { return message(op, ": no arrays"); });
    std::vector<NDArray> parts;
    for (const NDArray& array : arrays) {
      detail::object_of(array, op);
      parts.push_back(view(array, site));
    }
    const Shape& first = detail::unseen_shape(parts[0]);
    for (std::size_t i = 1; i < parts.size(); ++i) {
      Shape fits = detail::unseen_shape(parts[i]);
      if (fits.ndim() == first.ndim())
        fits[axis] = first[axis];
      require<ShapeError>(fits == first, [&] {
        return message(
            op,
            ": array ",
            i,
            " of shape ",
            detail::unseen_shape(arrays[i]),
            " does not fit the first one of shape ",
            detail::unseen_shape(arrays[0]));
      });
    }
    return concat(parts, axis, site);
  });
}

}  // namespace

NDArray hstack(std::span<const NDArray> arrays, SourceLocation site) {
  const bool is_row = !arrays.empty() && arrays[0].defined() && detail::unseen_shape(arrays[0]).ndim() < 2;
  return stacked("hstack", arrays, atleast_1d, is_row ? 0 : 1, site);
}

NDArray vstack(std::span<const NDArray> arrays, SourceLocation site) {
  return stacked("vstack", arrays, atleast_2d, 0, site);
}

NDArray dstack(std::span<const NDArray> arrays, SourceLocation site) {
  return stacked("dstack", arrays, atleast_3d, 2, site);
}

NDArray column_stack(std::span<const NDArray> arrays, SourceLocation site) {
  return stacked("column_stack", arrays, as_columns, 1, site);
}

#define SLUICE_OF_BRACES(name)                                                  \
  NDArray name(std::initializer_list<NDArray> arrays, SourceLocation site) {    \
    return name(std::span<const NDArray>(arrays.begin(), arrays.size()), site); \
  }
SLUICE_OF_BRACES(hstack)
SLUICE_OF_BRACES(vstack)
SLUICE_OF_BRACES(dstack)
SLUICE_OF_BRACES(column_stack)
#undef SLUICE_OF_BRACES

std::vector<NDArray> array_split(const NDArray& x, std::int64_t parts, int axis, SourceLocation site) {
  return detail::located(site, [&]() -> std::vector<NDArray> {
    const int normal = normal_axis(axis, detail::object_of(x, "array_split").shape.ndim(), "array_split");
    require<ValueError>(parts > 0, [&] { return message("array_split: ", parts, " parts, which are not above 0"); });
    const std::int64_t extent = normal == 0 ? x.shape()[0] : detail::extents_beside_batch(x)[normal];
    std::vector<NDArray> pieces;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < parts; ++i) {
      const std::int64_t end = begin + extent / parts + (i < extent % parts ? 1 : 0);
      pieces.push_back(x.slice(normal, begin, end, 1, site));
      begin = end;
    }
    return pieces;
  });
}

}  // namespace sluice
