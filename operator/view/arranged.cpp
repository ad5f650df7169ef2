#include <algorithm>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/detail/beside_batch.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/view/arranged.h>
#include <sluice/operator/view/attributes.h>
#include <sluice/operator/view/families.h>
#include <sluice/operator/walk/walk.h>

namespace sluice {

namespace {

// How many axes x has is the same whatever the size of a batch: a trace need not see that it is asked.
int axes_of(const NDArray& x, const char* op) {
  return detail::object_of(x, op).shape.ndim();
}

std::vector<int> normal_axes(const char* what, const std::vector<std::int64_t>& axes, int ndim) {
  std::vector<int> normal;
  for (const std::int64_t axis : axes) {
    normal.push_back(normal_axis(axis, ndim, "moveaxis"));
    require<ValueError>(std::count(normal.begin(), normal.end(), normal.back()) == 1, [&] {
      return message("moveaxis: axis ", axis, " of an array with ", ndim, " axes stands twice in ", what);
    });
  }
  return normal;
}

/// Which axes of x become which of the view.
struct MoveAttributes {
  std::vector<std::int64_t> source, destination;

  template <class V>
  void visit(V&& v) {
    v.field("source", source);
    v.field("destination", destination);
  }
};

// Of which axis each axis of the view is made.
Shape moved_order(const MoveAttributes& a, int ndim) {
  require<ValueError>(a.source.size() == a.destination.size(), [&] {
    return message("moveaxis: ", a.source.size(), " axes cannot move to ", a.destination.size(), " places");
  });
  const std::vector<int> from = normal_axes("source", a.source, ndim),
                         to = normal_axes("destination", a.destination, ndim);
  Shape order = Shape::filled(ndim, -1);
  for (std::size_t i = 0; i < from.size(); ++i)
    order[to[i]] = from[i];
  int next = 0;
  for (int place = 0; place < ndim; ++place) {
    if (order[place] >= 0)
      continue;
    while (std::find(from.begin(), from.end(), next) != from.end())
      ++next;
    order[place] = next++;
  }
  return order;
}

Geometry moved(const Operator&, const Geometry& input, const Shape*, const Attributes& attributes) {
  Geometry view = input;
  const Shape order = moved_order(attributes.as<MoveAttributes>(), input.shape.ndim());
  for (int axis = 0; axis < order.ndim(); ++axis) {
    view.shape[axis] = input.shape[static_cast<int>(order[axis])];
    view.strides[axis] = input.strides[static_cast<int>(order[axis])];
  }
  return view;
}

Arrays moved_back(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  MoveAttributes back = call.attributes.as<MoveAttributes>();
  std::swap(back.source, back.destination);
  return {invoke_one(detail::k_moveaxis, {dy}, Attributes::of(std::move(back)), SourceLocation::current())};
}

// -- rot90 ------------------------------------------------------------------------------------------------------------
struct TurnAttributes {
  std::int64_t k = 1;
  Shape axes{0, 1};

  template <class V>
  void visit(V&& v) {
    v.field("k", k);
    v.field("axes", axes);
  }
};

std::pair<int, int> plane_of(const TurnAttributes& a, int ndim) {
  require<ValueError>(
      a.axes.ndim() == 2, [&] { return message("rot90: axes ", a.axes, " are not the two of a plane"); });
  const int from = normal_axis(a.axes[0], ndim, "rot90"), to = normal_axis(a.axes[1], ndim, "rot90");
  require<ValueError>(from != to, [&] {
    return message("rot90: axes ", a.axes[0], " and ", a.axes[1], " of an array with ", ndim, " axes are the same");
  });
  return {from, to};
}

Specs infer_turned(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<TurnAttributes>();
  ArraySpec y = inputs[0];
  const auto [from, to] = plane_of(a, y.shape.ndim());
  if ((a.k & 1) != 0)
    std::swap(y.shape[from], y.shape[to]);
  return {y};
}

Arrays turned(std::span<const NDArray> inputs, const Attributes& attributes, SourceLocation site) {
  const auto& a = attributes.as<TurnAttributes>();
  const NDArray& x = inputs[0];
  const auto [from, to] = plane_of(a, axes_of(x, "rot90"));
  switch (a.k & 3) {
    case 1:
      return {flip(x, to, site).swapaxes(from, to, site)};
    case 2:
      return {flip(x, {from, to}, site)};
    case 3:
      return {flip(x.swapaxes(from, to, site), to, site)};
    default:
      return {x.copy(site)};
  }
}

NDArray with_axes(const NDArray& x, const char* op, std::span<const int> places, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    NDArray view = x;
    const int ndim = axes_of(x, op);
    for (std::size_t i = static_cast<std::size_t>(ndim); i < places.size(); ++i)
      view = view.expand_dims(places[i], site);
    return view;
  });
}

// -- broadcast_arrays -----------------------------------------------------------------------------------------------
// Extents that an array has itself stay open, so that they may be a batch's; the others are asked for.
Shape stretched_to(const NDArray& x, std::span<const NDArray> arrays, const Shape& target) {
  const Shape& own = detail::unseen_shape(x);
  Shape to = target;
  for (int axis = 0; axis < target.ndim(); ++axis) {
    const int at = axis - (target.ndim() - own.ndim());
    if (at >= 0 && own[at] == target[axis]) {
      to[axis] = -1;
      continue;
    }
    for (const NDArray& giver : arrays) {
      const Shape& shape = detail::unseen_shape(giver);
      const int place = axis - (target.ndim() - shape.ndim());
      if (place < 0 || shape[place] != target[axis])
        continue;
      to[axis] = place == 0 ? giver.shape()[0] : detail::extents_beside_batch(giver)[place];
      break;
    }
  }
  return to;
}

NDArray stretched(const NDArray& x, std::span<const NDArray> arrays, const Shape& target, SourceLocation site) {
  if (detail::unseen_shape(x) == target)
    return x;
  const auto whole = std::find_if(
      arrays.begin(), arrays.end(), [&](const NDArray& array) { return detail::unseen_shape(array) == target; });
  if (whole != arrays.end())
    return invoke_one(detail::k_broadcast_like, {x, *whole}, {}, site);
  return x.broadcast_to(stretched_to(x, arrays, target), site);
}

}  // namespace

const Operator detail::k_moveaxis{
    .name = "moveaxis", .attributes = &attribute_type<MoveAttributes>, .view = moved, .gradient = moved_back};
constinit const Operator detail::k_rot90{
    .name = "rot90", .attributes = &attribute_type<TurnAttributes>, .infer = infer_turned, .composition = turned};

NDArray moveaxis(
    const NDArray& x, const std::vector<int>& source, const std::vector<int>& destination, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "moveaxis");
    const MoveAttributes how{{source.begin(), source.end()}, {destination.begin(), destination.end()}};
    return detail::invoke_view(detail::k_moveaxis, x, Attributes::of(how), site);
  });
}

NDArray moveaxis(const NDArray& x, int source, int destination, SourceLocation site) {
  return moveaxis(x, std::vector<int>{source}, std::vector<int>{destination}, site);
}

NDArray ravel(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    detail::object_of(x, "ravel");
    return x.reshape({-1}, site);
  });
}

NDArray atleast_1d(const NDArray& x, SourceLocation site) {
  constexpr int places[] = {0};
  return with_axes(x, "atleast_1d", places, site);
}

NDArray atleast_2d(const NDArray& x, SourceLocation site) {
  constexpr int places[] = {0, 0};
  return with_axes(x, "atleast_2d", places, site);
}

NDArray atleast_3d(const NDArray& x, SourceLocation site) {
  constexpr int places[] = {0, 0, 2};
  return with_axes(x, "atleast_3d", places, site);
}

std::vector<NDArray> broadcast_arrays(std::span<const NDArray> arrays, SourceLocation site) {
  return detail::located(site, [&]() -> std::vector<NDArray> {
    Shape target;
    for (const NDArray& array : arrays)
      target = broadcast_shape(target, detail::object_of(array, "broadcast_arrays").shape, "broadcast_arrays");
    std::vector<NDArray> views;
    for (const NDArray& array : arrays)
      views.push_back(stretched(array, arrays, target, site));
    return views;
  });
}

std::vector<NDArray> broadcast_arrays(std::initializer_list<NDArray> arrays, SourceLocation site) {
  return broadcast_arrays(std::span(arrays.begin(), arrays.size()), site);
}

NDArray rot90(const NDArray& x, int k, std::pair<int, int> axes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    const TurnAttributes how{k, {axes.first, axes.second}};
    plane_of(how, axes_of(x, "rot90"));
    return (k & 3) == 0 ? x : invoke_one(detail::k_rot90, {x}, Attributes::of(how), site);
  });
}

NDArray fliplr(const NDArray& x, SourceLocation site) {
  return detail::located(
      site, [&]() -> NDArray { return flip(x, normal_axis(1, axes_of(x, "fliplr"), "fliplr"), site); });
}

NDArray flipud(const NDArray& x, SourceLocation site) {
  return detail::located(
      site, [&]() -> NDArray { return flip(x, normal_axis(0, axes_of(x, "flipud"), "flipud"), site); });
}

}  // namespace sluice
