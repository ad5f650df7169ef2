#include "tests/operator/extents.h"

#include <algorithm>
#include <map>

#include "tests/operator/every_case.h"
#include "tests/support/compare.h"

namespace sluice::test {

namespace {

using Places = std::vector<std::pair<std::size_t, int>>;

bool contains_all(const Places& outer, const Places& inner) {
  return std::includes(outer.begin(), outer.end(), inner.begin(), inner.end());
}

// Subsets of places that have one extent, small ones first; of many places those of one axis, and all.
std::vector<Places> candidates(const Places& alike) {
  constexpr std::size_t k_most = 9;
  std::vector<Places> sets;
  if (alike.size() > k_most) {
    std::map<int, Places> by_axis;
    for (const auto& place : alike) {
      sets.push_back({place});
      by_axis[place.second].push_back(place);
    }
    for (const auto& [axis, places] : by_axis)
      sets.push_back(places);
    sets.push_back(alike);
  } else {
    for (unsigned bits = 1; bits < 1u << alike.size(); ++bits) {
      Places& set = sets.emplace_back();
      for (std::size_t i = 0; i < alike.size(); ++i) {
        if (bits >> i & 1)
          set.push_back(alike[i]);
      }
    }
  }
  std::stable_sort(sets.begin(), sets.end(), [](const auto& a, const auto& b) { return a.size() < b.size(); });
  return sets;
}

// Shapes at 0 from those at e, 2e and 3e.
std::vector<std::optional<Shape>> at_none(
    const std::vector<Shape>& one, const std::vector<Shape>& two, const std::vector<Shape>& three) {
  std::vector<std::optional<Shape>> none(one.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    if (one[i].ndim() != two[i].ndim() || one[i].ndim() != three[i].ndim())
      continue;
    Shape shape = one[i];
    bool even = true;
    for (int axis = 0; axis < shape.ndim(); ++axis) {
      const std::int64_t step = two[i][axis] - one[i][axis];
      shape[axis] = one[i][axis] - step;
      even = even && three[i][axis] - two[i][axis] == step && shape[axis] >= 0;
    }
    if (even)
      none[i] = shape;
  }
  return none;
}

template <class Run>
std::optional<std::vector<Shape>> shapes_or_none(const Run& run) {
  try {
    random::seed(7);
    std::vector<Shape> shapes;
    for (const NDArray& result : run()) {
      result.wait_to_read();
      shapes.push_back(result.shape());
    }
    return shapes;
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace

std::vector<Shape> with_extent(std::vector<Shape> shapes, const FreeExtent& free, std::int64_t extent) {
  for (const auto& [input, axis] : free.places)
    shapes[input][axis] = extent;
  return shapes;
}

std::vector<FreeExtent> free_extents(const std::vector<Shape>& shapes, const ResultShapes& results) {
  const auto one = results(shapes);
  if (!one)
    return {};
  std::map<std::int64_t, Places> alike;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (int axis = 0; axis < shapes[i].ndim(); ++axis) {
      if (shapes[i][axis] != 0)
        alike[shapes[i][axis]].emplace_back(i, axis);
    }
  }
  std::vector<FreeExtent> found;
  for (const auto& [extent, places] : alike) {
    const std::size_t before = found.size();
    for (const Places& set : candidates(places)) {
      const bool known =
          std::any_of(found.begin() + static_cast<std::ptrdiff_t>(before), found.end(), [&](const auto& f) {
            return contains_all(set, f.places);
          });
      if (known)
        continue;
      FreeExtent free{set, extent};
      const auto two = results(with_extent(shapes, free, 2 * extent));
      const auto three = two ? results(with_extent(shapes, free, 3 * extent)) : std::nullopt;
      if (!three || two->size() != one->size() || three->size() != one->size())
        continue;
      free.of_none = at_none(*one, *two, *three);
      found.push_back(std::move(free));
    }
  }
  std::sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.places < b.places; });
  return found;
}

std::vector<Shape> shapes_of(const PlainCase& c) {
  std::vector<Shape> shapes;
  for (const auto& [shape, dtype] : c.inputs)
    shapes.push_back(shape);
  return shapes;
}

DifferentiableCase of_shapes(DifferentiableCase c, std::vector<Shape> shapes) {
  c.shapes = std::move(shapes);
  return c;
}

PlainCase of_shapes(PlainCase c, const std::vector<Shape>& shapes) {
  for (std::size_t i = 0; i < shapes.size(); ++i)
    c.inputs[i].first = shapes[i];
  return c;
}

PlainCase forward_of(const DifferentiableCase& c) {
  PlainCase made{c.name, {}, {}, c.low, c.high};
  for (const Shape& shape : c.shapes)
    made.inputs.emplace_back(shape, std::nullopt);
  made.f = [f = c.f](const Arrays& in, DType) { return Arrays{f({in.begin(), in.end()})}; };
  return made;
}

std::vector<PlainCase> every_forward_case() {
  std::vector<PlainCase> cases = every_plain_case();
  for (const DifferentiableCase& c : every_differentiable_case())
    cases.push_back(forward_of(c));
  return cases;
}

std::vector<FreeExtent> free_extents_of(const DifferentiableCase& c) {
  return free_extents(c.shapes, [&](const std::vector<Shape>& shapes) {
    return shapes_or_none([&] {
      std::vector<NDArray> given;
      for (std::size_t i = 0; i < shapes.size(); ++i)
        given.push_back(random_array(shapes[i], 10 + i, c.low, c.high));
      return Arrays{c.f(given)};
    });
  });
}

std::vector<FreeExtent> free_extents_of(const PlainCase& c) {
  for (const DType dtype : {float32, int32, bfloat16, bool_}) {
    const ResultShapes results = [&](const std::vector<Shape>& shapes) {
      return shapes_or_none([&] {
        Arrays given;
        for (std::size_t i = 0; i < shapes.size(); ++i)
          given.push_back(random_array(shapes[i], 11 + i, c.low, c.high, c.inputs[i].second.value_or(dtype)));
        return c.f(given, dtype);
      });
    };
    if (results(shapes_of(c)))
      return free_extents(shapes_of(c), results);
  }
  return {};
}

}  // namespace sluice::test
