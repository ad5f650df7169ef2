#include <algorithm>

#include <sluice/engine/error.h>
#include <sluice/operator/detail/kernel_task.h>
#include <sluice/operator/graph/graph.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

bool Node::mutates(std::size_t i) const noexcept {
  return op->mutates != nullptr ? op->mutates(i, inputs.size(), attributes) : detail::has(op->mutated_inputs, i);
}

bool Node::sees_shape_only(std::size_t i) const noexcept {
  return detail::has(op->shape_inputs, i);
}

bool Node::has_destinations() const noexcept {
  return std::any_of(results.begin(), results.end(), [](const Result& result) { return !result.made; });
}

namespace {

class Verifier {
 public:
  explicit Verifier(const Graph& graph) : graph_(graph), there_(graph.values.size()) {}

  void run() {
    check_values();
    for (at_ = 0; at_ < graph_.nodes.size(); ++at_)
      check_node(graph_.nodes[at_]);
    for (const ValueId output : graph_.outputs)
      check_there(output, "output of the graph");
  }

 private:
  template <class... Parts>
  void require_that(bool holds, const Parts&... parts) const {
    require<ValueError>(holds, [&] {
      return at_ < graph_.nodes.size() ? message("graph: node ", at_, " (", name(), "): ", parts...)
                                       : message("graph: ", parts...);
    });
  }
  const char* name() const {
    const Operator* const op = graph_.nodes[at_].op;
    return op == nullptr ? "no operator" : op->name;
  }

  void check_values() {
    at_ = graph_.nodes.size();
    for (ValueId id = 0; id < graph_.values.size(); ++id) {
      const Value& value = graph_.values[id];
      require_that(value.root < graph_.values.size(), "value ", id, " sees the memory of ", value.root);
      require_that(graph_.values[value.root].root == value.root, "value ", id, "'s root ", value.root, " is a view");
      const bool may_share = value.source == Source::result || value.source == Source::constant;
      require_that(may_share || value.root == id, "value ", id, " is a view without a node");
      require_that((value.source == Source::constant) == value.array.defined(), "value ", id, ": array and source");
      there_[id] = value.source != Source::result && value.source != Source::input;
    }
    for (const ValueId input : graph_.inputs) {
      require_that(input < graph_.values.size(), "input ", input, " is not there");
      require_that(graph_.values[input].source == Source::input, "input ", input, " is none");
      require_that(!there_[input], "value ", input, " is an input twice");
      there_[input] = true;
    }
  }

  void check_there(ValueId id, const char* what) const {
    require_that(id < graph_.values.size(), what, " ", id, " is not there");
    require_that(there_[id], what, " ", id, " is not made yet");
  }

  void check_node(const Node& node) {
    require_that(node.op != nullptr, "it has none");
    Specs given;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      check_there(node.inputs[i], "input");
      require_that(
          graph_.values[node.inputs[i]].source != Source::shape || node.sees_shape_only(i),
          "reads value ",
          node.inputs[i],
          ", of which the shape alone is known");
      given.push_back(graph_.values[node.inputs[i]].spec);
    }
    check_results(node, infer(*node.op, given, node.attributes));
  }

  void check_results(const Node& node, const Specs& specs) {
    require_that(
        node.results.size() == specs.size(), "has ", node.results.size(), " results, inference says ", specs.size());
    for (std::size_t i = 0; i < specs.size(); ++i) {
      const auto [id, made] = node.results[i];
      require_that(id < graph_.values.size(), "result ", id, " is not there");
      const Shape& shape = graph_.values[id].spec.shape;
      require_that(shape == specs[i].shape, "result ", id, " has shape ", shape, ", inference says ", specs[i].shape);
      if (made)
        check_made(node, id, specs[i]);
      else
        check_there(id, "destination");
    }
  }

  void check_made(const Node& node, ValueId id, const ArraySpec& spec) {
    const Value& value = graph_.values[id];
    require_that(
        value.spec.dtype == spec.dtype && value.spec.device == spec.device,
        "result ",
        id,
        " is ",
        value.spec.dtype,
        " on ",
        value.spec.device,
        ", inference says ",
        spec.dtype,
        " on ",
        spec.device);
    require_that(value.source == Source::result && !there_[id], "value ", id, " is made twice");
    const ValueId root = node.is_view() ? graph_.root(node.inputs[0]) : id;
    require_that(value.root == root, "result ", id, " sees the memory of ", value.root, ", not of ", root);
    there_[id] = true;
  }

  const Graph& graph_;
  std::vector<bool> there_;
  std::size_t at_ = 0;
};

}  // namespace

void verify(const Graph& graph) {
  Verifier(graph).run();
}

}  // namespace sluice::graph
