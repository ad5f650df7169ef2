#include <algorithm>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/detail/parameter_reads.h>
#include <sluice/gluon/train_step.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon {

namespace {

/// What a plan was made for. Arrays by identity: the plan's graph keeps them, so that no other comes to stand there.
struct Signature {
  Shape x_shape, y_shape;
  DType x_type, y_type;
  Device device;
  Float32Precision precision;
  std::vector<const void*> parameters;
  std::vector<double> multipliers;  // of decays, which are part of the step

  bool operator==(const Signature& other) const {
    return x_shape == other.x_shape && y_shape == other.y_shape && x_type == other.x_type && y_type == other.y_type &&
           device == other.device && precision == other.precision && parameters == other.parameters &&
           multipliers == other.multipliers;
  }
};

/// An array that a program brought along, and what it was to the tape.
struct Brought {
  NDArray array;
  std::shared_ptr<const autograd::Variable> variable;
};

struct Known {
  Signature signature;
  std::unique_ptr<graph::Plan> plan = {};  // null: by hand, it writes its samples, or records what stays
  std::vector<Brought> brought = {};
  std::vector<detail::ParameterRead> others = {};  // parameters of blocks that are not part of network or loss

  bool is_outdated() const {
    const auto has_other_gradient = [](const Brought& one) { return one.array.object()->variable != one.variable; };
    return std::any_of(brought.begin(), brought.end(), has_other_gradient) ||
           std::any_of(others.begin(), others.end(), [](const auto& read) { return read.is_outdated(); });
  }
};

ArraySpec spec_of(const NDArray& array) {
  return {array.shape(), array.dtype(), array.device()};
}

}  // namespace

struct TrainStep::State {
  const Block& net;
  const Block& loss;
  Trainer& trainer;
  const TrainStepOptions options;
  std::vector<ParameterDict::Entry> parameters = {};
  std::deque<Known> known = {};  // the one used last comes first
  std::size_t traced = 0;
  bool is_listed = false;
  std::uint64_t changes = 0, of_called = 0;  // of networks, when the parameters were listed

  void list_parameters() {
    const std::uint64_t now = detail::network_changes(), called = detail::changes_of_called();
    if (is_listed && now == changes)
      return;
    std::vector<ParameterDict::Entry> all;
    for (const Block* const block : {&net, &loss}) {
      const ParameterDict own = block->collect_params();
      all.insert(all.end(), own.begin(), own.end());
    }
    const bool same =
        std::equal(all.begin(), all.end(), parameters.begin(), parameters.end(), [](const auto& a, const auto& b) {
          return a.second.same(b.second);
        });
    if (!same || called != of_called)
      known.clear();  // a child that has no parameters may be another
    parameters = std::move(all);
    changes = now;
    of_called = called;
    is_listed = true;
  }

  bool is_complete() {
    list_parameters();
    return std::all_of(
        parameters.begin(), parameters.end(), [](const auto& entry) { return entry.second.is_initialized(); });
  }

  Signature signature_of(const NDArray& x, const NDArray& y) const {
    Signature signature{
        x.shape(), y.shape(), x.dtype(), y.dtype(), x.device(), sluice::detail::current_float32_precision(), {}, {}};
    for (const auto& [name, parameter] : parameters) {
      const auto* const object = parameter.data().object();
      signature.parameters.push_back(object);
      signature.parameters.push_back(object->variable == nullptr ? nullptr : object->variable->grad.object());
      signature.multipliers.push_back(parameter.wd_mult());
    }
    for (const auto& [name, parameter] : prepared(trainer))
      signature.parameters.push_back(parameter.data().object());
    for (const NDArray& array : trainer.optimizer().step_arrays(prepared(trainer)))
      signature.parameters.push_back(array.object());
    return signature;
  }

  StepResult forward_and_back(const NDArray& x, const NDArray& y, SourceLocation site) const {
    StepResult result;
    {
      const autograd::RecordScope record;
      result.predictions = net(x, site);
      result.losses = loss(result.predictions, y, site);
    }
    result.losses.backward();
    result.losses = result.losses.detach();
    result.predictions = result.predictions.detach();
    return result;
  }

  // As Trainer::step() asks, which sees by their versions what backward reached.
  void require_gradients(const graph::Graph& graph) const {
    std::vector<const void*> written;
    for (const graph::Node& node : graph.nodes) {
      for (const auto [value, made] : node.results) {
        if (graph.values[value].source == graph::Source::constant)
          written.push_back(graph.values[value].array.object()->buffer);
      }
    }
    for (const auto& [name, parameter] : prepared(trainer)) {
      const void* const gradient = parameter.grad().object()->buffer;
      require(std::find(written.begin(), written.end(), gradient) != written.end(), [&, &name = name] {
        return message(
            "backward does not reach '",
            name,
            "', which the trainer is to update; call it on a loss that depends on it, or set_grad_req(GradReq::null)");
      });
    }
  }

  // Arrays of neither the network nor the optimizer, to which gradients may go from some step on.
  static std::vector<Brought> brought_by(const graph::Graph& graph, const Signature& signature) {
    std::vector<Brought> found;
    for (const graph::Value& value : graph.values) {
      if (value.source != graph::Source::constant || !is_floating(value.spec.dtype))
        continue;
      const std::vector<const void*>& own = signature.parameters;
      if (std::find(own.begin(), own.end(), value.array.object()) == own.end())
        found.push_back({value.array, value.array.object()->variable});
    }
    return found;
  }

  Known trace(Signature signature, const NDArray& x, const NDArray& y, SourceLocation site) {
    const EngineScope here(x.engine());
    const detail::ParameterReads reads;
    graph::Tracer tracer;
    const NDArray samples = tracer.input(spec_of(x)), labels = tracer.input(spec_of(y));
    const graph::Graph graph = tracer.trace([&] {
      const StepResult result = forward_and_back(samples, labels, site);
      trace_step(trainer, site);
      return Arrays{result.losses, result.predictions};
    });
    ++traced;
    Known made{std::move(signature)};
    if (graph::writes_inputs(graph) || tracer.records_outside())
      return made;
    require_gradients(graph);
    made.plan = std::make_unique<graph::Plan>(graph, options.plan, x.engine());
    made.brought = brought_by(graph, made.signature);
    made.others = reads.others([&](const Parameter& read) {
      return std::any_of(
          parameters.begin(), parameters.end(), [&](const auto& entry) { return entry.second.same(read); });
    });
    return made;
  }

  graph::Plan* plan_for(const NDArray& x, const NDArray& y, SourceLocation site) {
    Signature signature = signature_of(x, y);
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const Known& one) { return one.signature == signature; });
    if (found != known.end() && !found->is_outdated()) {
      std::rotate(known.begin(), found, found + 1);
      return known.front().plan.get();
    }
    Known made = trace(std::move(signature), x, y, site);
    if (found != known.end())
      known.erase(found);
    if (known.size() >= std::max<std::size_t>(options.most_plans, 1))
      known.pop_back();
    known.push_front(std::move(made));
    return known.front().plan.get();
  }

  // Empty: a plan would not do the same.
  Arrays run_prepared(const NDArray& x, const NDArray& y, SourceLocation site) {
    try {
      const NDArray inputs[] = {x, y};
      graph::Plan* const plan = plan_for(x, y, site);
      if (plan != nullptr)
        return plan->run(inputs, site);
      cancel_step(trainer);
      return {};
    } catch (...) {
      cancel_step(trainer);
      throw;
    }
  }

  StepResult run(const NDArray& x, const NDArray& y, SourceLocation site) {
    require(x.defined() && y.defined() && x.ndim() > 0, [] { return "takes samples and labels along a first axis"; });
    const std::int64_t samples = x.shape()[0];
    const auto by_hand = [&] {
      const StepResult result = forward_and_back(x, y, site);
      trainer.step(samples, false, site);
      return result;
    };
    if (!is_complete())
      return by_hand();
    require<UnsupportedError>(!autograd::on_tape(x) && !autograd::on_tape(y), [] {
      return "samples or labels are on the tape, whose gradients a step as a graph does not compute; pass detach()";
    });
    trainer.prepare_step(samples, site);
    const Arrays results = run_prepared(x, y, site);
    if (results.empty())
      return by_hand();
    for (const auto& [name, parameter] : prepared(trainer))
      parameter.mark_grad_used();
    return {results[0], results[1]};
  }
};

TrainStep::TrainStep(const Block& net, const Block& loss, Trainer& trainer, const TrainStepOptions& options)
    : state_(new State{net, loss, trainer, options}) {}

TrainStep::~TrainStep() = default;

std::span<const ParameterDict::Entry> TrainStep::prepared(const Trainer& trainer) noexcept {
  return trainer.prepared_;
}
void TrainStep::trace_step(Trainer& trainer, SourceLocation site) {
  trainer.trace_step(site);
}
void TrainStep::cancel_step(Trainer& trainer) {
  trainer.cancel_step();
}

StepResult TrainStep::operator()(const NDArray& x, const NDArray& y, SourceLocation site) {
  return detail::called("TrainStep", site, [&] { return state_->run(x, y, site); });
}

const graph::Plan* TrainStep::plan() const noexcept {
  return state_->known.empty() ? nullptr : state_->known.front().plan.get();
}

std::size_t TrainStep::traced() const noexcept {
  return state_->traced;
}

}  // namespace sluice::gluon
