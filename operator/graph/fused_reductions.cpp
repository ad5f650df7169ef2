// Reductions that alone read what elementwise calls give: one node, which never writes that down.
#include <algorithm>
#include <optional>

#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/fusion_groups.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

namespace {

using sluice::detail::ReductionCall;

// Terms that are made in shorter runs of neighbours than that cost more than memory does.
constexpr std::int64_t k_least_run = 64;

/// Whether terms come in long runs: rows behind rows, or rows of neighbouring results.
bool comes_in_runs(const Shape& shape, const Shape& axes) {
  const auto is_reduced = [&](int axis) { return std::find(axes.begin(), axes.end(), axis) != axes.end(); };
  int axis = shape.ndim() - 1;
  std::int64_t run = 1;
  const auto pass = [&](bool reduced) {
    for (; axis >= 0 && (shape[axis] == 1 || is_reduced(axis) == reduced); --axis)
      run *= shape[axis];
  };
  pass(false);
  const bool in_rows = run == 1;
  pass(true);
  const std::int64_t at_once = run;
  if (in_rows)
    pass(false);
  return axis < 0 || at_once >= k_least_run;
}

/// A program that gives one value, and what is left of the one that it was a part of.
struct Cut {
  fused::Part part, rest;
};

/// None where a call would have to be made in both, or too much of what the rest reads would be read again.
std::optional<Cut> cut_off(const fused::Program& program, std::size_t output) {
  constexpr std::ptrdiff_t k_read_again = 2;  // what lies in memory is written and read
  std::vector<fused::Number> others = program.outputs;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(output));
  Cut cut{fused::part_of(program, {&program.outputs[output], 1}), fused::part_of(program, others)};
  const std::vector<std::size_t>& left = cut.rest.inputs;
  const auto again = std::count_if(cut.part.inputs.begin(), cut.part.inputs.end(), [&](std::size_t input) {
    return std::find(left.begin(), left.end(), input) != left.end();
  });
  const bool is_apart = cut.part.program.calls.size() + cut.rest.program.calls.size() == program.calls.size();
  return is_apart && again <= k_read_again ? std::optional(std::move(cut)) : std::nullopt;
}

class Merger {
 public:
  explicit Merger(const Graph& graph)
      : graph_(graph),
        order_(graph),
        once_(invariant_nodes(graph)),
        derived_(derived_nodes(graph)),
        nodes_(graph.nodes),
        gone_(graph.nodes.size()) {}

  /// From the last one on: of what a node gives a second reduction may be left alone with it.
  std::vector<Node> run() {
    for (std::size_t at = nodes_.size(); at-- > 0;) {
      if (!gone_[at])
        merge(at);
    }
    std::vector<Node> kept;
    for (std::size_t at = 0; at < nodes_.size(); ++at) {
      if (!gone_[at])
        kept.push_back(std::move(nodes_[at]));
    }
    return kept;
  }
  bool is_changed() const noexcept { return changed_; }

 private:
  void merge(std::size_t at) {
    const auto reduction = sluice::detail::reduction_call(*nodes_[at].op, nodes_[at].attributes);
    if (!reduction)
      return;
    const ValueId terms = nodes_[at].inputs[0];
    const auto maker = order_.maker[terms];
    const ArraySpec& spec = graph_.values[terms].spec;
    if (!maker || !is_alone(terms, at) || !fused::reduces_on(spec.device) ||
        !comes_in_runs(spec.shape, reduction->axes))
      return;
    Node made = nodes_[*maker], left = made;
    auto program = program_of_node(*maker);
    if (!program)
      return;
    const bool is_whole = program->outputs.size() == 1;
    if (!is_whole) {
      auto cut = cut_off(*program, place_of(made, terms));
      if (!cut)
        return;
      program = std::move(cut->part.program);
      made.inputs = chosen(left.inputs, cut->part.inputs);
      left.attributes = fused::attributes_of(cut->rest.program);
      left.inputs = chosen(left.inputs, cut->rest.inputs);
      left.results.erase(left.results.begin() + static_cast<std::ptrdiff_t>(place_of(left, terms)));
    }
    if (!may_move(made, *maker, at) || !treats_denormals_alike(made, *maker, at) ||
        !(is_whole || stays_alike(left, *maker)))
      return;
    changed_ = true;
    gone_[*maker] = is_whole;
    nodes_[*maker] = std::move(left);
    nodes_[at].op = &fused::k_fused_reduction;
    nodes_[at].attributes = fused::attributes_of(*program, *reduction);
    nodes_[at].inputs = std::move(made.inputs);
    nodes_[at].site = made.site;
  }

  /// What a node computes: a fused one, or a call that could be part of one.
  std::optional<fused::Program> program_of_node(std::size_t at) const {
    const Node& node = nodes_[at];
    if (node.op == &fused::k_fused)
      return fused::program_of(node.attributes);
    if (!is_fusable(graph_, order_, at) || node.inputs.size() > k_most_fused_inputs)
      return std::nullopt;
    fused::Call call{.op = node.op, .attributes = node.attributes};
    call.dtype = graph_.values[node.results[0].value].spec.dtype;
    fused::Program program;
    for (const ValueId input : node.inputs) {
      call.operands.push_back(static_cast<fused::Number>(program.inputs.size()));
      program.inputs.push_back(graph_.values[input].spec.dtype);
    }
    program.outputs = {static_cast<fused::Number>(program.inputs.size())};
    program.calls = {std::move(call)};
    return program;
  }

  static std::size_t place_of(const Node& node, ValueId value) {
    const auto is_it = [value](const Result& result) { return result.value == value; };
    return static_cast<std::size_t>(
        std::find_if(node.results.begin(), node.results.end(), is_it) - node.results.begin());
  }
  static std::vector<ValueId> chosen(const std::vector<ValueId>& from, const std::vector<std::size_t>& places) {
    std::vector<ValueId> ids;
    for (const std::size_t place : places)
      ids.push_back(from[place]);
    return ids;
  }

  bool is_alone(ValueId terms, std::size_t reader) const {
    const bool is_output = std::find(graph_.outputs.begin(), graph_.outputs.end(), terms) != graph_.outputs.end();
    return !is_output && graph_.root(terms) == terms && order_.named_by[terms] == std::vector{reader};
  }

  // What the maker reads is read where the reduction stands: nobody may write it before, nor the two themselves.
  bool may_move(const Node& made, std::size_t maker, std::size_t to) const {
    if (once_[maker] != once_[to] || derived_[maker] != derived_[to])
      return false;
    bool is_written = false;
    for (std::size_t at = maker; at <= to; ++at) {
      for_each_write(graph_, graph_.nodes[at], [&](ValueId written) {
        for (const ValueId input : made.inputs)
          is_written = is_written || graph_.root(input) == written;
      });
    }
    return !is_written;
  }

  bool is_wide(ValueId id) const { return graph_.values[id].spec.dtype == DType::float64; }
  bool any_wide(const std::vector<ValueId>& ids) const {
    return std::any_of(ids.begin(), ids.end(), [this](ValueId id) { return is_wide(id); });
  }
  bool any_wide(const Node& node) const {
    return any_wide(node.inputs) || std::any_of(node.results.begin(), node.results.end(), [this](const Result& result) {
             return is_wide(result.value);
           });
  }

  // A task keeps denormals where it sees float64: maker, reduction and what they become must agree.
  bool treats_denormals_alike(const Node& made, std::size_t maker, std::size_t reduction) const {
    const ValueId terms = nodes_[reduction].inputs[0], result = nodes_[reduction].results[0].value;
    const bool together = any_wide(made.inputs) || is_wide(result);
    return any_wide(nodes_[maker]) == together && (is_wide(terms) || is_wide(result)) == together;
  }
  bool stays_alike(const Node& left, std::size_t maker) const { return any_wide(left) == any_wide(nodes_[maker]); }

  const Graph& graph_;
  const Dependencies order_;
  const std::vector<bool> once_, derived_;
  std::vector<Node> nodes_;
  std::vector<bool> gone_;
  bool changed_ = false;
};

}  // namespace

Graph with_fused_reductions(const Graph& graph) {
  const Graph apart = with_shapes_apart(graph);
  Merger merger(apart);
  std::vector<Node> nodes = merger.run();
  if (!merger.is_changed())
    return graph;
  return {.values = apart.values, .nodes = std::move(nodes), .inputs = graph.inputs, .outputs = graph.outputs};
}

}  // namespace sluice::graph
