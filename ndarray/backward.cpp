// The walk back over the tape: every node once, after all that consumed its outputs, without recursion. Pushes work
// and never waits.
#include <boost/unordered/unordered_flat_map.hpp>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/leaf_node.h>

namespace sluice::autograd {
namespace {

using Gradients = boost::container::small_vector<NDArray, 1>;

/// What the walk knows of one node.
struct Visit {
  NodeRef node;
  int consumers = 0;       // edges into it that have not delivered yet
  bool needed = false;     // a gradient that was asked for lies at it or behind it
  bool pulls = false;      // ... behind it
  bool is_target = false;  // its gradients are asked for themselves (grad())
  Gradients gradients;     // one an output, undefined = zero so far
};

// Where the user wrote what the node recorded.
std::string of_node(const Node& node) {
  const Origin* const origin = Origin::of(node.site());
  return message(origin == nullptr ? "" : origin->what() + ", ", node.site().file, ":", node.site().line);
}

class Walk {
 public:
  Walk(const char* op, const BackwardOptions& options, SourceLocation site)
      : op_(op), options_(options), site_(site), scope_(OriginScope::stamped(site)) {}

  void add_head(const NDArray& head, const NDArray* gradient);
  /// Asks for the gradient of `variable` itself instead of depositing gradients in variables.
  void add_target(const NDArray& variable);
  void run();
  /// Adds where this backward was asked for.
  void locate(Error& error) const;
  /// After run(): the gradient of the i-th target, zeros if no path leads there.
  NDArray target_gradient(std::size_t i, const NDArray& variable) const;

 private:
  struct Target {
    Entry entry;
    NDArray gradient;
  };

  std::size_t visit_of(const NodeRef& node);
  void discover();
  void mark_needed();
  void process(std::size_t at);
  void collect(const Visit& visit);
  std::vector<NDArray> pull(Node& node, const Gradients& gradients);
  void deliver(const Entry& to, NDArray gradient, const Node& from);
  void add_to(Visit& visit, int output, NDArray gradient);

  const char* op_;
  BackwardOptions options_;
  SourceLocation site_;
  OriginScope scope_;  // what is not of a node's gradient
  boost::unordered_flat_map<Node*, std::size_t> index_;
  std::vector<Visit> visits_;  // in the order of discovery
  std::vector<std::size_t> ready_;
  std::vector<Target> targets_;
};

std::size_t Walk::visit_of(const NodeRef& node) {
  const auto [at, is_new] = index_.try_emplace(node.get(), visits_.size());
  if (is_new) {
    Visit& visit = visits_.emplace_back();
    visit.node = node;
    visit.gradients.resize(node->outputs.size());
  }
  return at->second;
}

void Walk::add_head(const NDArray& head, const NDArray* gradient) {
  const detail::ArrayObject& object = detail::object_of(head, op_);
  require<AutogradError>(static_cast<bool>(object.entry.node), [&] {
    return message(
        op_,
        ": an array of shape ",
        object.shape,
        " was not computed from variables while recording; compute it inside an autograd::RecordScope, from arrays "
        "with attach_grad() or a network's initialised parameters");
  });
  NDArray seed;
  if (gradient != nullptr && gradient->defined()) {
    const detail::ArrayObject& given = *gradient->object();
    require<ShapeError>(given.shape == object.shape, [&] {
      return message(op_, ": a head gradient of shape ", given.shape, " for a head of shape ", object.shape);
    });
    require<DTypeError>(given.dtype == object.dtype, [&] {
      return message(op_, ": a head gradient of ", given.dtype, " for a head of ", object.dtype);
    });
    require<DeviceError>(given.device == object.device, [&] {
      return message(op_, ": a head gradient on ", given.device, " for a head on ", object.device);
    });
    seed = *gradient;
  } else {
    seed = ones_like(head);
  }
  const std::size_t at = visit_of(object.entry.node);
  add_to(visits_[at], object.entry.index, std::move(seed));
}

void Walk::add_target(const NDArray& variable) {
  const detail::ArrayObject& object = detail::object_of(variable, op_);
  require<AutogradError>(static_cast<bool>(object.entry.node), [&] {
    return message(op_, ": an array of shape ", object.shape, " is neither a variable nor computed from one");
  });
  targets_.push_back({object.entry, {}});
}

// visits_ grows behind the loop: every node reachable from the heads, each once.
void Walk::discover() {
  for (std::size_t at = 0; at < visits_.size(); ++at) {
    const NodeRef node = visits_[at].node;
    require<AutogradError>(!node->spent, [&] {
      return message(
          op_,
          ": the tape was used up by an earlier backward (at \"",
          node->name(),
          "\" of ",
          of_node(*node.get()),
          "); to go back twice give that one retain_graph, otherwise record again");
    });
    for (const Entry& input : node->inputs) {
      if (input.node)
        ++visits_[visit_of(input.node)].consumers;
    }
  }
}

void Walk::mark_needed() {
  if (targets_.empty()) {
    for (Visit& visit : visits_)
      visit.needed = visit.pulls = true;
    return;
  }
  for (const Target& target : targets_) {
    if (const auto at = index_.find(target.entry.node.get()); at != index_.end())
      visits_[at->second].needed = visits_[at->second].is_target = true;
  }
  // Consumers before what they consume; backwards, every node comes after its inputs.
  std::vector<std::size_t> order;
  order.reserve(visits_.size());
  std::vector<int> left(visits_.size());
  for (std::size_t i = 0; i < visits_.size(); ++i) {
    left[i] = visits_[i].consumers;
    if (left[i] == 0)
      order.push_back(i);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (const Entry& input : visits_[order[i]].node->inputs) {
      if (!input.node)
        continue;
      const std::size_t to = index_.find(input.node.get())->second;
      if (--left[to] == 0)
        order.push_back(to);
    }
  }
  for (std::size_t i = order.size(); i-- > 0;) {
    Visit& visit = visits_[order[i]];
    for (const Entry& input : visit.node->inputs) {
      if (input.node && visits_[index_.find(input.node.get())->second].needed)
        visit.needed = visit.pulls = true;
    }
  }
}

void Walk::run() {
  const ModeScope modes(options_.create_graph, options_.train_mode);
  discover();
  mark_needed();
  for (std::size_t i = visits_.size(); i-- > 0;) {
    if (visits_[i].consumers == 0)
      ready_.push_back(i);
  }
  while (!ready_.empty()) {
    const std::size_t next = ready_.back();
    ready_.pop_back();
    process(next);
  }
}

void Walk::process(std::size_t at) {
  collect(visits_[at]);
  const NodeRef node = std::move(visits_[at].node);
  Gradients gradients = std::move(visits_[at].gradients);
  visits_[at].gradients.clear();
  bool any = false;
  for (const NDArray& gradient : gradients)
    any = any || gradient.defined();

  if (auto* leaf = dynamic_cast<detail::LeafNode*>(node.get())) {
    if (any && targets_.empty()) {
      NDArray gradient = std::move(gradients.front());
      gradients.clear();
      leaf->deposit(std::move(gradient), options_.create_graph);
    }
    return;
  }
  const auto inputs = node->inputs;
  std::vector<NDArray> pulled(inputs.size());
  if (any && visits_[at].pulls)
    pulled = pull(*node.get(), gradients);
  gradients.clear();
  if (!options_.retain_graph && !options_.create_graph) {
    node->spent = true;
    node->release_saved();
    node->inputs.clear();
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].node)
      deliver(inputs[i], std::move(pulled[i]), *node.get());
  }
}

void Walk::collect(const Visit& visit) {
  if (!visit.is_target)
    return;
  for (Target& target : targets_) {
    if (target.entry.node.get() == visit.node.get())
      target.gradient = visit.gradients[static_cast<std::size_t>(target.entry.index)];
  }
}

std::vector<NDArray> Walk::pull(Node& node, const Gradients& gradients) {
  const OriginScope scope(node.site());
  std::vector<NDArray> pulled;
  try {
    pulled = node.pull({gradients.data(), gradients.size()});
  } catch (Error& error) {
    error.locate(message(
        "in the gradient of \"",
        node.name(),
        "\" of ",
        of_node(node),
        "\n  backward at ",
        site_.file,
        ":",
        site_.line));
    throw;
  }
  require<AutogradError>(pulled.size() == node.inputs.size(), [&] {
    return message(op_, ": ", node.name(), " gave ", pulled.size(), " gradients for ", node.inputs.size(), " inputs");
  });
  return pulled;
}

void Walk::deliver(const Entry& to, NDArray gradient, const Node& from) {
  const std::size_t at = index_.find(to.node.get())->second;
  Visit& visit = visits_[at];
  if (gradient.defined() && visit.needed) {
    const OutputSpec& spec = to.node->outputs[static_cast<std::size_t>(to.index)];
    require<AutogradError>(gradient.object()->shape == spec.shape, [&] {
      return message(
          op_,
          ": ",
          from.name(),
          " gave a gradient of shape ",
          gradient.shape(),
          " for an output of ",
          to.node->name(),
          " of shape ",
          spec.shape);
    });
    add_to(visit, to.index, std::move(gradient));
  }
  if (--visit.consumers == 0)
    ready_.push_back(at);
}

void Walk::add_to(Visit& visit, int output, NDArray gradient) {
  NDArray& sum = visit.gradients[static_cast<std::size_t>(output)];
  sum = sum.defined() ? detail::add_gradients(sum, gradient) : std::move(gradient);
}

NDArray Walk::target_gradient(std::size_t i, const NDArray& variable) const {
  const NDArray& found = targets_[i].gradient;
  return found.defined() ? found : zeros_like(variable);
}

void Walk::locate(Error& error) const {
  error.locate(message("backward at ", site_.file, ":", site_.line));
}

void add_heads(Walk& walk, const char* op, std::span<const NDArray> heads, std::span<const NDArray> head_grads) {
  require<ValueError>(!heads.empty(), [&] { return message(op, ": no head was given"); });
  require<ValueError>(head_grads.empty() || head_grads.size() == heads.size(), [&] {
    return message(op, ": ", head_grads.size(), " head gradients for ", heads.size(), " heads");
  });
  for (std::size_t i = 0; i < heads.size(); ++i)
    walk.add_head(heads[i], head_grads.empty() ? nullptr : &head_grads[i]);
}

}  // namespace

void backward(
    std::span<const NDArray> heads,
    std::span<const NDArray> head_grads,
    const BackwardOptions& options,
    SourceLocation site) {
  Walk walk("backward", options, site);
  try {
    add_heads(walk, "backward", heads, head_grads);
    walk.run();
  } catch (Error& error) {
    walk.locate(error);
    throw;
  }
}

std::vector<NDArray> grad(
    std::span<const NDArray> heads,
    std::span<const NDArray> variables,
    std::span<const NDArray> head_grads,
    const BackwardOptions& options,
    SourceLocation site) {
  if (variables.empty())
    return {};
  Walk walk("grad", options, site);
  try {
    add_heads(walk, "grad", heads, head_grads);
    for (const NDArray& variable : variables)
      walk.add_target(variable);
    walk.run();
  } catch (Error& error) {
    walk.locate(error);
    throw;
  }
  std::vector<NDArray> found;
  for (std::size_t i = 0; i < variables.size(); ++i)
    found.push_back(walk.target_gradient(i, variables[i]));
  return found;
}

}  // namespace sluice::autograd
