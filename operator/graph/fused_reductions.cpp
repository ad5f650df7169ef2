// Reductions that read what elementwise calls give: one node, which writes down only what others read.
#include <algorithm>
#include <optional>
#include <utility>

#include <sluice/operator/fused/fused.h>
#include <sluice/operator/fused/reduction.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/fusion_groups.h>
#include <sluice/operator/graph/detail/reduction_rules.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/passes.h>

namespace sluice::graph {

namespace {

using sluice::detail::ReductionCall;

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
  Merger(const Graph& graph, TakenReductions taken)
      : graph_(graph),
        taken_(taken),
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
  /// A reduction, and what gives its terms.
  struct Case {
    std::size_t at = 0, maker = 0;
    ReductionCall reduction = {};
    ValueId terms = 0;
    fused::Program program = {};  // of the maker
    std::size_t output = 0;       // of it: the terms
    bool is_alone = false;        // nobody else reads them
  };

  void merge(std::size_t at) {
    const auto reduction = sluice::detail::reduction_call(*nodes_[at].op, nodes_[at].attributes);
    if (!reduction)
      return;
    const ValueId terms = nodes_[at].inputs[0];
    const auto maker = order_.maker[terms];
    if (!maker || graph_.root(terms) != terms || !fused::reduces_on(graph_.values[terms].spec.device, reduction->row))
      return;
    auto program = program_of_node(*maker);
    if (!program)
      return;
    const Case found{
        at, *maker, *reduction, terms, std::move(*program), place_of(nodes_[*maker], terms), is_alone(terms, at)};
    if (found.is_alone && found.program.outputs.size() == 1)
      take_whole(found);
    else if (!take_all(found) && found.is_alone)
      take_part(found);
  }

  // The maker goes.
  void take_whole(const Case& found) {
    const Node& made = nodes_[found.maker];
    if (!joins(joining(found, found.program, made.inputs)) || !may_move(made.inputs, found.maker, found.at) ||
        !treats_denormals_alike(found, made.inputs))
      return;
    Node joined = joined_node(found, found.program, made.inputs);
    if (!is_prepared(joined))
      return;
    put(found.at, std::move(joined));
    gone_[found.maker] = true;
  }

  // A part of the maker goes, the rest stays.
  void take_part(const Case& found) {
    auto cut = cut_off(found.program, found.output);
    if (!cut)
      return;
    Node left = nodes_[found.maker];
    const std::vector<ValueId> inputs = chosen(left.inputs, cut->part.inputs);
    left.attributes = fused::attributes_of(cut->rest.program);
    left.inputs = chosen(left.inputs, cut->rest.inputs);
    left.results.erase(left.results.begin() + static_cast<std::ptrdiff_t>(found.output));
    const Joining part = joining(found, cut->part.program, inputs);
    const Joining rest = joining(found, cut->rest.program, left.inputs),
                  whole = joining(found, found.program, nodes_[found.maker].inputs);
    if ((taken_ != TakenReductions::all && !is_worth_parting(part, work_of(rest), work_of(whole))) ||
        !may_move(inputs, found.maker, found.at) || !treats_denormals_alike(found, inputs) ||
        any_wide(left) != any_wide(nodes_[found.maker]))
      return;
    Node joined = joined_node(found, cut->part.program, inputs);
    const Device device = graph_.values[found.terms].spec.device;
    if (!is_prepared(joined) || !fused::prepare(left.attributes, device).empty())
      return;
    put(found.at, std::move(joined));
    nodes_[found.maker] = std::move(left);
  }

  // The reduction goes to where the maker is, which writes down what others read.
  bool take_all(const Case& found) {
    const Node& made = nodes_[found.maker];
    if (!goes_forward(found))
      return false;
    fused::Program program = found.program;
    program.outputs = {found.program.outputs[found.output]};
    std::vector<Result> results = nodes_[found.at].results;
    for (std::size_t i = 0; i < made.results.size(); ++i) {
      if (i == found.output && found.is_alone)
        continue;
      program.outputs.push_back(found.program.outputs[i]);
      results.push_back(made.results[i]);
    }
    if (!joins(joining(found, program, made.inputs)) || !treats_denormals_alike(found, made.inputs))
      return false;
    Node joined = joined_node(found, program, made.inputs);
    joined.results = std::move(results);
    if (!is_prepared(joined))
      return false;
    for_each_write(graph_, nodes_[found.at], [&](ValueId root) { moved_.emplace_back(found.maker, root); });
    put(found.maker, std::move(joined));
    gone_[found.at] = true;
    return true;
  }

  Joining joining(const Case& found, const fused::Program& program, const std::vector<ValueId>& inputs) const {
    Joining made{.program = program, .reduction = found.reduction, .terms = graph_.values[found.terms].spec};
    for (const ValueId input : inputs)
      made.inputs.push_back(graph_.values[input].spec);
    made.are_kept = !found.is_alone;
    return made;
  }
  bool joins(const Joining& joining) const { return taken_ == TakenReductions::all || is_worth_joining(joining); }

  Node joined_node(const Case& found, const fused::Program& program, const std::vector<ValueId>& inputs) const {
    Node joined = nodes_[found.at];
    joined.op = &fused::k_fused_reduction;
    joined.attributes = fused::attributes_of(program, found.reduction);
    joined.inputs = inputs;
    joined.site = nodes_[found.maker].site;
    return joined;
  }

  // A kernel is compiled before anybody counts on it.
  bool is_prepared(const Node& joined) const {
    std::vector<ArraySpec> specs;
    for (const ValueId input : joined.inputs)
      specs.push_back(graph_.values[input].spec);
    return fused::prepare_reduction(joined.attributes, specs).empty();
  }

  void put(std::size_t at, Node node) {
    changed_ = true;
    nodes_[at] = std::move(node);
  }

  /// What a node computes: a fused one, or a call that could be part of one.
  std::optional<fused::Program> program_of_node(std::size_t at) const {
    const Node& node = nodes_[at];
    if (gone_[at] || node.op == &fused::k_fused_reduction)
      return std::nullopt;
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
    return !is_output && order_.named_by[terms] == std::vector{reader};
  }

  bool is_read(ValueId root, const std::vector<ValueId>& inputs) const {
    return std::any_of(inputs.begin(), inputs.end(), [&](ValueId input) { return graph_.root(input) == root; });
  }
  // What the maker reads is read where the reduction stands: nobody may write it before, nor the two themselves.
  bool may_move(const std::vector<ValueId>& inputs, std::size_t maker, std::size_t to) const {
    if (once_[maker] != once_[to] || derived_[maker] != derived_[to])
      return false;
    bool is_written = std::any_of(moved_.begin(), moved_.end(), [&](const auto& moved) {
      return moved.first >= maker && moved.first <= to && is_read(moved.second, inputs);
    });
    for (std::size_t at = maker; at <= to; ++at) {
      for_each_write(
          graph_, graph_.nodes[at], [&](ValueId written) { is_written = is_written || is_read(written, inputs); });
    }
    return !is_written;
  }

  // The reduction runs where the maker stands: nobody in between may write over the terms, nor see what the reduction
  // writes, and the maker must not touch that itself.
  bool goes_forward(const Case& found) const {
    const Node& made = nodes_[found.maker];
    const Result& result = nodes_[found.at].results[0];
    const ValueId root = graph_.root(result.value);
    const auto is_apart = [&](const Result& each) { return each.made && graph_.root(each.value) != root; };
    bool may = once_[found.maker] == once_[found.at] && derived_[found.maker] == derived_[found.at] &&
               std::all_of(made.results.begin(), made.results.end(), is_apart) && !is_read(root, made.inputs);
    for (std::size_t at = found.maker + 1; at < found.at; ++at) {
      const Node& between = graph_.nodes[at];
      for_each_read(graph_, between, [&](ValueId read) { may = may && (result.made || read != root); });
      for_each_write(graph_, between, [&](ValueId written) {
        may = may && written != found.terms && (result.made || written != root);
      });
    }
    return may;
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
  bool treats_denormals_alike(const Case& found, const std::vector<ValueId>& inputs) const {
    const ValueId result = nodes_[found.at].results[0].value;
    const bool apart = is_wide(found.terms) || is_wide(result);
    const bool together = any_wide(inputs) || is_wide(result);
    return any_wide(nodes_[found.maker]) == together && apart == together;
  }

  const Graph& graph_;
  const TakenReductions taken_;
  const Dependencies order_;
  const std::vector<bool> once_, derived_;
  std::vector<Node> nodes_;
  std::vector<bool> gone_;
  std::vector<std::pair<std::size_t, ValueId>> moved_;  // writes that came forward: to which node, of which root
  bool changed_ = false;
};

}  // namespace

Graph with_fused_reductions(const Graph& graph, TakenReductions taken) {
  if (taken == TakenReductions::none)
    return graph;
  const Graph apart = with_shapes_apart(graph);
  Merger merger(apart, taken);
  std::vector<Node> nodes = merger.run();
  if (!merger.is_changed())
    return graph;
  return {.values = apart.values, .nodes = std::move(nodes), .inputs = graph.inputs, .outputs = graph.outputs};
}

}  // namespace sluice::graph
