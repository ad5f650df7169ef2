#include <algorithm>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/offer.h>
#include <sluice/operator/graph/detail/numbered.h>
#include <sluice/operator/graph/extents.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

bool is_row_by_row(const Geometry& lies) {
  if (lies.shape.size() <= 1)
    return true;
  std::int64_t expected = 1;
  for (int axis = lies.shape.ndim() - 1; axis >= 0; --axis) {
    if (lies.shape[axis] != 1 && lies.strides[axis] != expected)
      return false;
    expected *= lies.shape[axis];
  }
  return true;
}

Geometry row_by_row(const Shape& shape) {
  return {shape, contiguous_strides(shape), 0};
}

class Inference {
 public:
  Inference(const Graph& graph, std::span<const ValueId> like) : graph_(graph), made_(graph), like_(like) {
    for (const Value& value : graph.values) {
      const bool is_constant = value.source == Source::constant;
      was_.push_back(is_constant ? sluice::detail::geometry_of(value.array) : row_by_row(value.spec.shape));
    }
    is_ = was_;
  }

  Graph run(std::span<const Shape> shapes) {
    require<ValueError>(shapes.size() + like_.size() == graph_.inputs.size(), [&] {
      return message(
          "graph: takes ",
          graph_.inputs.size(),
          " inputs, was given ",
          shapes.size(),
          " shapes and ",
          like_.size(),
          " values");
    });
    late_ = std::span(graph_.inputs).subspan(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i)
      give(graph_.inputs[i], row_by_row(shapes[i]));
    for (std::size_t at = 0; at < graph_.nodes.size(); ++at)
      run_numbered(graph_, at, [&] { run_node(graph_.nodes[at]); });
    return std::move(made_);
  }

 private:
  void give(ValueId id, const Geometry& lies) {
    check_special(graph_.values[id].spec.shape, lies.shape);
    made_.values[id].spec.shape = lies.shape;
    is_[id] = lies;
    for (std::size_t i = 0; i < like_.size(); ++i) {
      if (like_[i] == id)
        give(late_[i], row_by_row(lies.shape));
    }
  }

  // Broadcasting stretches what is 1; of nothing some make something else.
  static void check_special(const Shape& was, const Shape& is) {
    bool alike = was.ndim() == is.ndim();
    for (int axis = 0; alike && axis < is.ndim(); ++axis)
      alike = was[axis] == is[axis] || (was[axis] > 1 && is[axis] > 1);
    require<ShapeError>(alike, [&] { return message("an array of shape ", was, " cannot stand for one of ", is); });
  }

  void run_node(const Node& node) {
    if (node.is_view()) {
      run_view(node);
      return;
    }
    Specs given;
    for (const ValueId input : node.inputs)
      given.push_back(made_.values[input].spec);
    const Specs specs = infer(*node.op, given, node.attributes);
    require<ShapeError>(specs.size() == node.results.size(), [&] {
      return message("gives ", specs.size(), " results, not ", node.results.size());
    });
    for (std::size_t i = 0; i < specs.size(); ++i)
      give_result(node.results[i], specs[i]);
    for (const ValueId input : node.inputs) {
      if (made_.values[input].source == Source::random)
        made_.values[input].counters = node.op->random(specs, node.attributes);
    }
  }

  void give_result(const Result& result, const ArraySpec& spec) {
    if (result.made) {
      give(result.value, row_by_row(spec.shape));
      return;
    }
    require<ShapeError>(made_.values[result.value].spec.shape == spec.shape, [&] {
      return message(
          "its result of shape ", spec.shape, " goes to an array of ", made_.values[result.value].spec.shape);
    });
  }

  void run_view(const Node& node) {
    const ValueId id = node.results[0].value;
    give(id, seen(node, is_));
    was_[id] = seen(node, was_);
    require<ShapeError>(is_row_by_row(was_[id]) == is_row_by_row(is_[id]), [&] {
      return message("a view of shape ", is_[id].shape, " does not lie as that of ", was_[id].shape, " does");
    });
  }

  static Geometry seen(const Node& node, const std::vector<Geometry>& of) {
    const Shape* const like = node.inputs.size() > 1 ? &of[node.inputs[1]].shape : nullptr;
    return node.op->view(*node.op, of[node.inputs[0]], like, node.attributes);
  }

  const Graph& graph_;
  Graph made_;
  const std::span<const ValueId> like_;
  std::span<const ValueId> late_;
  std::vector<Geometry> was_, is_;  // how values lay when the graph was traced, and lie now
};

}  // namespace

Graph with_extents(const Graph& graph, std::span<const Shape> shapes, std::span<const ValueId> like) {
  return Inference(graph, like).run(shapes);
}

}  // namespace sluice::graph
