#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/error.h>
#include <sluice/operator/control/attributes.h>
#include <sluice/operator/control/detail/body.h>
#include <sluice/operator/control/detail/branches.h>
#include <sluice/operator/control/subgraph.h>
#include <sluice/operator/graph/detail/nested.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/graph/respecified.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::control {

namespace {

/// A plan and what it was made for.
struct Known {
  const void* core;
  Float32Precision precision;
  Var engine;  // keeps what tells it from later ones
  std::unique_ptr<graph::Plan> plan;
};

}  // namespace

struct Subgraph::State {
  explicit State(graph::Graph made) : graph(std::move(made)) {}

  const graph::Graph graph;
  std::mutex mutex = {};
  std::vector<Known> plans = {};
  std::map<Float32Precision, std::unique_ptr<const ReadyBody>> ready = {};
  std::map<std::string, std::unique_ptr<const GradientNode>> gradients = {};

  graph::Plan* find(const void* core, Float32Precision precision) const {
    for (const Known& known : plans) {
      if (known.core == core && known.precision == precision)
        return known.plan.get();
    }
    return nullptr;
  }

  // Made without the lock: a plan may run tasks, which may come here.
  graph::Plan& plan_here() {
    Engine& engine = Engine::current();
    const void* const core = &sluice::detail::EngineAccess::core(engine);
    const Float32Precision precision = sluice::detail::current_float32_precision();
    {
      const std::lock_guard hold(mutex);
      if (graph::Plan* const plan = find(core, precision); plan != nullptr)
        return *plan;
    }
    Known made{core, precision, engine.new_var(), std::make_unique<graph::Plan>(graph)};
    const std::lock_guard hold(mutex);
    if (find(core, precision) == nullptr)
      plans.push_back(std::move(made));
    return *find(core, precision);
  }

  const ReadyBody& ready_here() {
    const Float32Precision precision = sluice::detail::current_float32_precision();
    {
      const std::lock_guard hold(mutex);
      if (const auto known = ready.find(precision); known != ready.end())
        return *known->second;
    }
    auto made = std::make_unique<ReadyBody>();
    made->graph = graph::optimised(graph);
    made->memory = plan_memory(made->graph, values_apart(made->graph), graph::Sharing::in_order);
    made->bytes_of_branches = bytes_of_branches(made->graph);
    const std::lock_guard hold(mutex);
    return *ready.emplace(precision, std::move(made)).first->second;
  }
};

Subgraph::Subgraph(graph::Graph graph) {
  graph::verify(graph);
  for (const graph::Value& value : graph.values)
    require<ValueError>(
        value.source != graph::Source::constant, [] { return "a subgraph takes all arrays as inputs"; });
  const char* const why = why_not_repeatable(graph);
  require<UnsupportedError>(
      why == nullptr, [&] { return message("the body ", why, "; it cannot be a graph of its own"); });
  state_ = std::make_shared<State>(std::move(graph));
}

const graph::Graph& Subgraph::graph() const noexcept {
  return state_->graph;
}

bool Subgraph::takes(std::span<const ArraySpec> inputs) const noexcept {
  const graph::Graph& own = graph();
  return std::equal(
      inputs.begin(), inputs.end(), own.inputs.begin(), own.inputs.end(), [&](const ArraySpec& a, graph::ValueId id) {
        const ArraySpec& b = own.values[id].spec;
        return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
      });
}

Arrays Subgraph::run(std::span<const NDArray> inputs, SourceLocation site) const {
  return state_->plan_here().run(inputs, site);
}

const ReadyBody& Subgraph::ready() const {
  return state_->ready_here();
}

const GradientNode& Subgraph::gradient(const std::string& key, const std::function<GradientNode()>& make) const {
  {
    const std::lock_guard hold(state_->mutex);
    if (const auto known = state_->gradients.find(key); known != state_->gradients.end())
      return *known->second;
  }
  auto made = std::make_unique<const GradientNode>(make());
  const std::lock_guard hold(state_->mutex);
  return *state_->gradients.emplace(key, std::move(made)).first->second;
}

Subgraph respecified(const Subgraph& subgraph, std::span<const ArraySpec> inputs) {
  return subgraph.takes(inputs) ? subgraph : Subgraph(graph::with_inputs(subgraph.graph(), inputs));
}

AttributeValue value_of(const Subgraph& field) {
  return field.empty() ? std::string() : graph::nested_text(field.graph(), {});
}

bool assign(Subgraph& field, const AttributeValue& value) {
  const std::string* const text = std::get_if<std::string>(&value);
  if (text == nullptr)
    return false;
  field = text->empty() ? Subgraph() : Subgraph(graph::from_nested_text(*text));
  return true;
}

std::vector<std::pair<std::string, Subgraph>> subgraphs_of(const graph::Node& node) {
  std::vector<std::pair<std::string, Subgraph>> found;
  if (node.attributes.type() != node.op->attributes)  // verify() is to say so
    return found;
  if (node.op == &k_cond) {
    const auto& a = node.attributes.as<CondAttributes>();
    found = {{"then_body", a.then_body}, {"else_body", a.else_body}};
  } else if (node.op == &k_foreach) {
    found = {{"body", node.attributes.as<ForeachAttributes>().body}};
  } else if (node.op == &k_while_loop) {
    const auto& a = node.attributes.as<WhileAttributes>();
    found = {{"condition", a.condition}, {"body", a.body}};
  }
  std::erase_if(found, [](const auto& one) { return one.second.empty(); });
  return found;
}

}  // namespace sluice::control
