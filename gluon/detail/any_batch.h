#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <sluice/ndarray/detail/shape_watch.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/graph/trace.h>

// One traced program for all sizes of batches. A program is what its calls are, and C++ code between them can depend on
// a size only by asking an array for its extents. So two things are looked at: which arrays were asked (their shapes
// must be the same at another size, or the program is traced for it), and, for operators, which look at arrays from
// inside, whether a second trace of another size makes the same calls. Extents 0 and 1 are sizes by themselves:
// broadcasting takes them for something else.
namespace sluice::gluon::detail {

/// A program as it was traced.
struct Traced {
  graph::Graph graph = {};
  std::optional<std::vector<graph::ValueId>> asked = {};  // values asked for their extents; none: of unknown ones too
};

/// The values of the traced program that `watch` saw; none where one is of another program, a loop's body say.
std::optional<std::vector<graph::ValueId>> values_asked(
    const graph::Tracer& tracer, const sluice::detail::ShapeWatch& watch);

template <class Program>
Traced watched_trace(graph::Tracer& tracer, const Program& program) {
  const sluice::detail::ShapeWatch watch;
  graph::Graph graph = tracer.trace(program);
  return {std::move(graph), values_asked(tracer, watch)};
}

/// Which inputs share the extent of the first axis with the first one that has axes: those of a batch. None where that
/// extent is 0 or 1.
std::vector<bool> batched_inputs(std::span<const ArraySpec> inputs);

/// Do `given` differ from `known` in the size of the batch, 2 or more, and in nothing else?
bool is_other_batch(
    std::span<const ArraySpec> known, std::span<const ArraySpec> given, const std::vector<bool>& batched);

/// A size to compare with: larger, and odd.
std::vector<ArraySpec> with_other_batch(std::span<const ArraySpec> inputs, const std::vector<bool>& batched);

/// The program for inputs of these shapes, further inputs like those values (with_extents()); none where it is not
/// known to be the same, as it asked for extents that are others there or has a call that does not take such inputs.
std::optional<graph::Graph> for_batch(
    const Traced& known, std::span<const ArraySpec> inputs, std::span<const graph::ValueId> like = {});

/// The same calls, on the same arrays where these are constants.
bool is_same_with_constants(const graph::Graph& a, const graph::Graph& b);

}  // namespace sluice::gluon::detail
