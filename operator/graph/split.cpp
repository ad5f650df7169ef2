#include <algorithm>
#include <utility>

#include <sluice/engine/error.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/shapes_apart.h>
#include <sluice/operator/graph/split.h>

namespace sluice::graph {

namespace {

/// What the nodes behind the cut read that lies before it.
class Cut {
 public:
  Cut(const Graph& joint, const SplitPlace& place) : joint_(joint), made_behind_(joint.values.size()), place_(place) {
    find_views();
    for (std::size_t at = place.nodes; at < joint.nodes.size(); ++at) {
      for (const Result& result : joint.nodes[at].results)
        made_behind_[result.value] = made_behind_[result.value] || result.made;
    }
    for (std::size_t i = place.inputs; i < joint.inputs.size(); ++i)
      made_behind_[joint.inputs[i]] = true;
  }

  std::vector<ValueId> saved() {
    for (std::size_t at = place_.nodes; at < joint_.nodes.size(); ++at) {
      const Node& node = joint_.nodes[at];
      for (const ValueId input : node.inputs)
        read(input);
      check_writes(node);
    }
    check_saved();
    for (std::size_t i = place_.outputs; i < joint_.outputs.size(); ++i)
      read(joint_.outputs[i]);
    return std::move(saved_);
  }

  /// Views that are read behind the cut: made there again of what they show, so that nothing is copied for them, and so
  /// that who reads them finds the strides that a tape's have: products of others are added up in another order.
  std::vector<Node> views() const {
    std::vector<Node> found;
    for (std::size_t at = 0; at < place_.nodes; ++at) {
      if (is_view_needed_[at])
        found.push_back(joint_.nodes[at]);
    }
    return found;
  }

 private:
  bool is_before(ValueId value) const {
    const Source source = joint_.values[value].source;
    return !made_behind_[value] && !is_needed_again(value) && source != Source::constant && source != Source::shape;
  }
  bool is_needed_again(ValueId value) const { return view_made_by_[value] != k_none; }

  // Those of arrays from outside unless the program writes there: others may do so, too, before gradients are taken.
  void find_views() {
    const std::vector<bool> rewritten = rewritten_roots(joint_);
    for (std::size_t at = 0; at < place_.nodes; ++at) {
      const Node& node = joint_.nodes[at];
      const ValueId root = node.is_view() ? joint_.root(node.results[0].value) : 0;
      if (node.is_view() && (joint_.values[root].source == Source::result || !rewritten[root]))
        view_made_by_[node.results[0].value] = at;
    }
  }
  // And what it is a view of; gives what is no view.
  ValueId make_again(ValueId view) {
    for (; is_needed_again(view); view = joint_.nodes[view_made_by_[view]].inputs[0])
      is_view_needed_[view_made_by_[view]] = true;
    return view;
  }
  // Numbers that a gradient draws itself are its own.
  void read(ValueId named) {
    const ValueId value = make_again(named);
    if (!is_before(value) || is_own_random(value))
      return;
    if (std::find(saved_.begin(), saved_.end(), value) == saved_.end())
      saved_.push_back(value);
  }
  bool is_own_random(ValueId value) const {
    if (joint_.values[value].source != Source::random)
      return false;
    return std::none_of(
        joint_.nodes.begin(), joint_.nodes.begin() + static_cast<std::ptrdiff_t>(place_.nodes), [&](const Node& node) {
          return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
        });
  }
  void check_writes(const Node& node) const {
    for_each_write(joint_, node, [&](ValueId root) {
      require<UnsupportedError>(!is_before(root), [&] {
        return message(node.op->name, ": a gradient writes what the program before it made; this cannot be two graphs");
      });
    });
  }

  // As versions say of arrays with memory: what a gradient reads is not written once somebody has read it.
  void check_saved() const {
    std::vector<bool> is_saved(joint_.values.size()), is_read(joint_.values.size());
    for (const ValueId value : saved_)
      is_saved[joint_.root(value)] = true;
    for (std::size_t at = 0; at < place_.nodes; ++at) {
      const Node& node = joint_.nodes[at];
      for (const Result& result : node.results) {
        const ValueId root = joint_.root(result.value);
        require<AutogradError>(result.made || !is_saved[root] || !is_read[root], [&] {
          return message(node.op->name, ": writes an array in place that an earlier gradient needs; write to a copy");
        });
      }
      for_each_read(joint_, node, [&](ValueId root) { is_read[root] = true; });
    }
  }

  static constexpr auto k_none = static_cast<std::size_t>(-1);

  const Graph& joint_;
  std::vector<bool> made_behind_;
  const SplitPlace place_;
  std::vector<std::size_t> view_made_by_ = std::vector<std::size_t>(joint_.values.size(), k_none);
  std::vector<bool> is_view_needed_ = std::vector<bool>(place_.nodes);  // by node
  std::vector<ValueId> saved_;
};

}  // namespace

SplitGraph split(const Graph& whole, const SplitPlace& place) {
  const Graph joint = with_shapes_apart_behind(whole, place.nodes);  // a shape is no reason to save an array
  Cut cut(joint, place);
  SplitGraph parts{.saved = cut.saved()};
  const auto node_at = [&](std::size_t at) { return joint.nodes.begin() + static_cast<std::ptrdiff_t>(at); };
  const auto in = joint.inputs.begin() + static_cast<std::ptrdiff_t>(place.inputs);
  const auto out = joint.outputs.begin() + static_cast<std::ptrdiff_t>(place.outputs);
  parts.forward = {
      joint.values,
      {joint.nodes.begin(), node_at(place.nodes)},
      {joint.inputs.begin(), in},
      {joint.outputs.begin(), out}};
  parts.forward.outputs.insert(parts.forward.outputs.end(), parts.saved.begin(), parts.saved.end());

  Graph& back = parts.backward;
  back = {joint.values, cut.views(), parts.saved, {out, joint.outputs.end()}};
  back.nodes.insert(back.nodes.end(), node_at(place.nodes), joint.nodes.end());
  back.inputs.insert(back.inputs.end(), in, joint.inputs.end());
  back = with_shapes_apart_behind(back, 0);  // views of parameters are as large as what the program made
  for (const ValueId id : parts.saved)
    back.values[id] = {.source = Source::input, .spec = joint.values[id].spec, .root = id};
  for (const Node& node : back.nodes) {
    if (node.is_view())
      back.values[node.results[0].value].root = back.root(node.inputs[0]);
  }
  verify(parts.forward);
  verify(back);
  return parts;
}

}  // namespace sluice::graph
