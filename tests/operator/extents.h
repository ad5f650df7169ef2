#pragma once

// Which extents of a case's inputs its shape rule leaves free, found by asking for twice and three times as much: the
// rows of a batch, the inner axis of a product. What is free may be 0 or large as well.
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "tests/operator/differentiable_case.h"
#include "tests/operator/plain_case.h"

namespace sluice::test {

/// Axes of inputs (input, axis) that have one extent together.
struct FreeExtent {
  std::vector<std::pair<std::size_t, int>> places;
  std::int64_t extent = 0;
  /// Of the results where the extent is 0; of those that do not grow evenly with it none, and none of a negative one.
  std::vector<std::optional<Shape>> of_none = {};
};

/// Shapes of the results of inputs of such shapes; none where they are refused.
using ResultShapes = std::function<std::optional<std::vector<Shape>>(const std::vector<Shape>&)>;

/// The smallest sets of axes that are free, those of the first input's first axes first.
std::vector<FreeExtent> free_extents(const std::vector<Shape>& shapes, const ResultShapes& results);

/// The same shapes with another extent there.
std::vector<Shape> with_extent(std::vector<Shape> shapes, const FreeExtent& free, std::int64_t extent);

/// Of a case, asked of arrays on the CPU of the first type that it takes as it is; none if it takes no type.
std::vector<FreeExtent> free_extents_of(const DifferentiableCase& c);
std::vector<FreeExtent> free_extents_of(const PlainCase& c);

/// A case of other shapes.
DifferentiableCase of_shapes(DifferentiableCase c, std::vector<Shape> shapes);
PlainCase of_shapes(PlainCase c, const std::vector<Shape>& shapes);
std::vector<Shape> shapes_of(const PlainCase& c);

/// Forward alone, of types that have no gradient.
PlainCase forward_of(const DifferentiableCase& c);
/// Those of every_plain_case(), and forward of every_differentiable_case().
std::vector<PlainCase> every_forward_case();

}  // namespace sluice::test
