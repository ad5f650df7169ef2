#include <utility>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/autocast_here.h>
#include <sluice/ndarray/detail/backward_walk.h>
#include <sluice/ndarray/detail/leaf_node.h>

namespace sluice::autograd {

namespace {

thread_local bool finds_nan = false;

class FindsNan {
 public:
  explicit FindsNan(bool find) noexcept : before_(std::exchange(finds_nan, find)) {}
  FindsNan(const FindsNan&) = delete;
  FindsNan& operator=(const FindsNan&) = delete;
  ~FindsNan() { finds_nan = before_; }

 private:
  bool before_;
};

// Where the user wrote what the node recorded.
std::string of_node(const Node& node) {
  const Origin* const origin = Origin::of(node.site());
  return message(origin == nullptr ? "" : origin->what() + ", ", node.site().file, ":", node.site().line);
}

}  // namespace

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
  if (options_.find_nan)
    check_numbers(seed, [] { return "a head gradient"; });
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

void Walk::add_end(const Entry& place) {
  targets_.push_back({place, {}});
  ends_.insert(place.node.get());
}

// visits_ grows behind the loop: every node reachable from the heads, each once.
void Walk::discover() {
  for (std::size_t at = 0; at < visits_.size(); ++at) {
    const NodeRef node = visits_[at].node;
    if (is_end(node.get()))
      continue;
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
    if (is_end(visits_[order[i]].node.get()))
      continue;
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
    if (is_end(visit.node.get()))
      continue;
    for (const Entry& input : visit.node->inputs) {
      if (input.node && visits_[index_.find(input.node.get())->second].needed)
        visit.needed = visit.pulls = true;
    }
  }
}

bool Walk::finds_nan_here() noexcept {
  return finds_nan;
}

void Walk::run() {
  const FindsNan inner(options_.find_nan);
  const detail::NoAutocast in_types_of_forward;
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
  if (!is_end(visits_[at].node.get())) {
    call_hooks(visits_[at]);
    check_whole(visits_[at]);
  }
  collect(visits_[at]);
  if (is_end(visits_[at].node.get()))
    return;
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
  // Of a tape that leads to no target nothing was used: it may be another program's.
  if (!options_.retain_graph && !options_.create_graph && visits_[at].needed) {
    node->spent = true;
    node->release_saved();
    if (node->spent)  // it may say otherwise
      node->inputs.clear();
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].node)
      deliver(inputs[i], std::move(pulled[i]), *node.get(), i);
  }
}

// Those of an end are its own walk's.
void Walk::call_hooks(Visit& visit) {
  if (visit.node->hooks == nullptr || !visit.needed)
    return;
  const auto hooks = *visit.node->hooks;  // which may remove themselves
  for (const Node::Hook& hook : hooks) {
    NDArray& gradient = visit.gradients[static_cast<std::size_t>(hook.output)];
    if (!gradient.defined())
      continue;
    NDArray given = hook.call(gradient);
    if (!given.defined())
      continue;
    const OutputSpec& spec = visit.node->outputs[static_cast<std::size_t>(hook.output)];
    require<AutogradError>(
        given.shape() == spec.shape && given.dtype() == gradient.dtype() && given.device() == gradient.device(), [&] {
          return message(
              op_,
              ": a hook of \"",
              visit.node->name(),
              "\" of ",
              of_node(*visit.node.get()),
              " gave ",
              given.dtype(),
              ' ',
              given.shape(),
              " on ",
              given.device(),
              " for a gradient of ",
              gradient.dtype(),
              ' ',
              spec.shape,
              " on ",
              gradient.device());
        });
    gradient = std::move(given);
  }
}

// Sums of gradients, and what hooks gave.
void Walk::check_whole(const Visit& visit) const {
  for (std::size_t i = 0; options_.find_nan && i < visit.gradients.size(); ++i)
    check_numbers(visit.gradients[i], [&] {
      return message(
          "the whole gradient of result ", i, " of \"", visit.node->name(), "\" of ", of_node(*visit.node.get()));
    });
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
  for (std::size_t i = 0; options_.find_nan && i < pulled.size(); ++i)
    check_numbers(pulled[i], [&] {
      return message("the gradient of \"", node.name(), "\" of ", of_node(node), " towards its input ", i);
    });
  return pulled;
}

template <class What>
void Walk::check_numbers(const NDArray& gradient, const What& what) const {
  if (!gradient.defined() || detail::calls_are_taken() || gradient.object()->buffer == nullptr)
    return;
  require<AutogradError>(!detail::has_nan(gradient), [&] { return message(op_, ": ", what(), " has NaN"); });
}

void Walk::deliver(const Entry& to, NDArray gradient, const Node& from, std::size_t input) {
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
          " for input ",
          input,
          " (of ",
          to.node->name(),
          "), whose shape is ",
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

}  // namespace sluice::autograd
