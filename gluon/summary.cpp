#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>

#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/layer_call.h>
#include <sluice/gluon/detail/layer_watch.h>
#include <sluice/gluon/summary.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/operator/graph/flops.h>
#include <sluice/operator/graph/memory_plan.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/trace.h>

namespace sluice::gluon {

namespace detail {

namespace {
// Of all threads: mostly there are none, and who asks sees so without a lock.
struct Watches {
  std::atomic<int> count{0};
  std::mutex mutex = {};
  std::vector<std::pair<std::thread::id, LayerWatch*>> all = {};
};
Watches& watches() {
  static auto* const made = new Watches;
  return *made;
}
}  // namespace

LayerWatch::LayerWatch() {
  const std::lock_guard hold(watches().mutex);
  watches().all.emplace_back(std::this_thread::get_id(), this);
  ++watches().count;
}

LayerWatch::~LayerWatch() {
  const std::lock_guard hold(watches().mutex);
  std::erase_if(watches().all, [this](const auto& one) { return one.second == this; });
  --watches().count;
}

LayerWatch* LayerWatch::current() {
  if (watches().count.load(std::memory_order_relaxed) == 0)
    return nullptr;
  const std::lock_guard hold(watches().mutex);
  const auto is_here = [](const auto& one) { return one.first == std::this_thread::get_id(); };
  const auto found = std::find_if(watches().all.rbegin(), watches().all.rend(), is_here);
  return found == watches().all.rend() ? nullptr : found->second;
}

}  // namespace detail

namespace {

/// Notes which layer made which nodes of a graph that is being traced.
class Watch final : public detail::LayerWatch {
 public:
  explicit Watch(const graph::Tracer& tracer) : tracer_(tracer) {}

  Arrays watched(const Block& layer, const std::string& path, const std::function<Arrays()>& call) override {
    const std::size_t row = layers.size(), above = row_;
    layers.push_back({.path = path, .type = detail::type_name(typeid(layer)), .depth = depth_});
    note_nodes();
    row_ = row;
    ++depth_;
    Arrays outputs = call();
    note_nodes();
    --depth_;
    row_ = above;
    for (const NDArray& output : outputs) {
      if (output.defined())
        layers[row].outputs.push_back(output.shape());
    }
    count_parameters(layer, layers[row]);
    layers[row].options = layer.options_text();  // sizes of inputs may have come with the call
    return outputs;
  }

  /// By the layer that made each node: a number behind all layers where none did.
  const std::vector<std::size_t>& makers() const noexcept { return makers_; }

  std::vector<LayerSummary> layers = {};

 private:
  // Nodes since the last note are of the layer that was entered last and not left yet.
  void note_nodes() { makers_.resize(tracer_.size(), row_); }

  // After the call: it may have completed their shapes.
  void count_parameters(const Block& layer, LayerSummary& row) {
    for (const auto& [name, parameter] : layer.collect_params()) {
      if (name.find('.') != std::string::npos)
        continue;
      const bool known = std::any_of(
          counted_.begin(), counted_.end(), [&, &one = parameter](const Parameter& other) { return other.same(one); });
      row.is_shared = row.is_shared || known;
      row.parameters += parameter.shape().size();
      if (!known)
        counted_.push_back(parameter);
    }
  }

  const graph::Tracer& tracer_;
  std::vector<std::size_t> makers_;
  std::vector<Parameter> counted_;
  std::size_t row_ = 0, depth_ = 0;
};

void add_parameters(const ParameterDict& parameters, Summary& to) {
  std::vector<Parameter> counted;
  for (const auto& [name, parameter] : parameters) {
    if (std::any_of(
            counted.begin(), counted.end(), [&, &one = parameter](const Parameter& other) { return other.same(one); }))
      continue;
    counted.push_back(parameter);
    const std::int64_t size = parameter.shape().size();
    (parameter.grad_req() == GradReq::null ? to.other_parameters : to.trained_parameters) += size;
    to.parameter_bytes += size * static_cast<std::int64_t>(size_of(parameter.dtype()));
  }
}

void add_memory(const graph::Graph& graph, Summary& to) {
  const graph::Graph planned = graph::optimised(graph);
  const graph::MemoryPlan plan = graph::plan_memory(planned, std::vector<bool>(planned.values.size()));
  to.result_bytes = static_cast<std::int64_t>(graph::bytes_of(plan));
  to.result_bytes_without_sharing = static_cast<std::int64_t>(plan.bytes_without_sharing);
}

Summary summarised(const Block& net, const Arrays& inputs, SourceLocation site) {
  graph::Tracer tracer;
  Arrays examples;
  for (const NDArray& input : inputs) {
    require(input.defined(), [] { return "summary: an example is an undefined NDArray"; });
    examples.push_back(tracer.input({input.shape(), input.dtype(), input.device()}));
  }
  Watch watch(tracer);
  const graph::Graph graph = tracer.trace([&] { return net.call(examples, site); });
  Summary made{.layers = std::move(watch.layers), .flops = graph::flops(graph)};
  for (std::size_t at = 0; at < graph.nodes.size(); ++at)
    made.layers[watch.makers()[at]].flops += graph::flops(graph.nodes[at], graph);
  add_parameters(net.collect_params(), made);
  add_memory(graph, made);
  return made;
}

}  // namespace

Summary Block::summary(const Arrays& inputs, SourceLocation site) const {
  const autograd::ModeScope predicting(false, false);
  return detail::called("summary", site, [&] { return summarised(*this, inputs, site); });
}

Summary Block::summary(const NDArray& x, SourceLocation site) const {
  return summary(Arrays{x}, site);
}

}  // namespace sluice::gluon
