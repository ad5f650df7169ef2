#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/any_batch.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/extents.h>
#include <sluice/operator/graph/respecified.h>

namespace sluice::gluon::detail {

namespace {

bool is_same_place(const NDArray& a, const NDArray& b) {
  const auto &x = *a.object(), &y = *b.object();
  return x.buffer == y.buffer && x.offset == y.offset && x.dtype == y.dtype && x.shape == y.shape &&
         x.strides == y.strides;
}

}  // namespace

std::optional<std::vector<graph::ValueId>> values_asked(
    const graph::Tracer& tracer, const sluice::detail::ShapeWatch& watch) {
  std::vector<graph::ValueId> asked;
  for (const std::uint64_t value : watch.seen()) {
    const std::optional<graph::ValueId> id = tracer.find(value);
    if (!id)
      return std::nullopt;
    asked.push_back(*id);
  }
  return asked;
}

std::vector<bool> batched_inputs(std::span<const ArraySpec> inputs) {
  std::vector<bool> batched(inputs.size());
  const auto first = std::find_if(inputs.begin(), inputs.end(), [](const auto& spec) { return !spec.shape.empty(); });
  if (first == inputs.end() || first->shape[0] < 2)
    return batched;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    batched[i] = !inputs[i].shape.empty() && inputs[i].shape[0] == first->shape[0];
  return batched;
}

bool is_other_batch(
    std::span<const ArraySpec> known, std::span<const ArraySpec> given, const std::vector<bool>& batched) {
  if (known.size() != given.size())
    return false;
  std::int64_t extent = 0;
  for (std::size_t i = 0; i < known.size(); ++i) {
    if (known[i].dtype != given[i].dtype || known[i].device != given[i].device)
      return false;
    Shape shape = given[i].shape;
    if (batched[i] && !shape.empty()) {
      if (shape[0] < 2 || (extent != 0 && shape[0] != extent))
        return false;
      extent = shape[0];
      shape[0] = known[i].shape[0];
    }
    if (shape != known[i].shape)
      return false;
  }
  return extent != 0;
}

std::vector<ArraySpec> with_other_batch(std::span<const ArraySpec> inputs, const std::vector<bool>& batched) {
  std::vector<ArraySpec> other(inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < other.size(); ++i) {
    if (batched[i])
      other[i].shape[0] = 2 * other[i].shape[0] + 1;
  }
  return other;
}

std::optional<graph::Graph> for_batch(
    const Traced& known, std::span<const ArraySpec> inputs, std::span<const graph::ValueId> like) {
  if (!known.asked)
    return std::nullopt;
  std::vector<Shape> shapes;
  for (const ArraySpec& spec : inputs)
    shapes.push_back(spec.shape);
  try {
    graph::Graph made = with_extents(known.graph, shapes, like);
    const bool are_same = std::all_of(known.asked->begin(), known.asked->end(), [&](graph::ValueId id) {
      return made.values[id].spec.shape == known.graph.values[id].spec.shape;
    });
    return are_same ? std::optional(std::move(made)) : std::nullopt;
  } catch (const Error&) {  // tracing says what is wrong, at the program's own line
    return std::nullopt;
  }
}

bool is_same_with_constants(const graph::Graph& a, const graph::Graph& b) {
  return is_same_program(a, b) &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), [](const auto& x, const auto& y) {
           return x.source != graph::Source::constant || is_same_place(x.array, y.array);
         });
}

}  // namespace sluice::gluon::detail
