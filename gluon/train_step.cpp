#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/any_batch.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/detail/parameter_reads.h>
#include <sluice/gluon/train_step.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon {

namespace {

ArraySpec spec_of(const NDArray& array) {
  return {array.shape(), array.dtype(), array.device()};
}

/// What a plan was made for. Arrays by identity: the plan's graph keeps them, so that no other comes to stand there.
struct Signature {
  std::array<ArraySpec, 2> inputs;
  Float32Precision precision;
  std::optional<DType> autocast;
  std::vector<const void*> parameters;
  std::vector<double> multipliers;  // of decays, which are part of the step

  bool operator==(const Signature& other) const {
    return is_like(other) &&
           std::equal(inputs.begin(), inputs.end(), other.inputs.begin(), [](const ArraySpec& a, const ArraySpec& b) {
             return a.shape == b.shape && a.dtype == b.dtype && a.device == b.device;
           });
  }
  /// All but the inputs.
  bool is_like(const Signature& other) const {
    return precision == other.precision && autocast == other.autocast && parameters == other.parameters &&
           multipliers == other.multipliers;
  }
};

/// A step as it was traced, and the inputs whose first extent may be another.
struct TracedStep {
  detail::Traced program = {};
  bool by_hand = false;  // a plan would not do the same: it writes its samples, or records what stays
  std::vector<detail::ParameterRead> others = {};  // parameters of blocks that are not part of network or loss
  std::vector<bool> batched = {};

  bool is_for_any_batch() const { return std::find(batched.begin(), batched.end(), true) != batched.end(); }
};

/// An array that a program brought along, and what it was to the tape.
struct Brought {
  NDArray array;
  std::shared_ptr<const autograd::Variable> variable;
};

struct Known {
  Signature signature;
  std::unique_ptr<graph::Plan> plan = {};         // null: by hand
  std::shared_ptr<const TracedStep> traced = {};  // null of a step for one size of batches alone
  std::vector<Brought> brought = {};
  std::vector<detail::ParameterRead> others = {};  // as of the step

  bool is_outdated() const {
    const auto has_other_gradient = [](const Brought& one) { return one.array.object()->variable != one.variable; };
    return std::any_of(brought.begin(), brought.end(), has_other_gradient) ||
           std::any_of(others.begin(), others.end(), [](const auto& read) { return read.is_outdated(); });
  }
};

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

  // What they do is part of the step.
  static void add_hooks_of(const sluice::detail::ArrayObject& parameter, std::vector<const void*>& to) {
    const autograd::Node* const leaf = parameter.entry.node.get();
    if (leaf == nullptr || leaf->hooks == nullptr)
      return;
    for (const autograd::Node::Hook& hook : *leaf->hooks)
      to.push_back(reinterpret_cast<const void*>(hook.number));
  }

  Signature signature_of(const NDArray& x, const NDArray& y) const {
    Signature signature{
        {spec_of(x), spec_of(y)}, sluice::detail::current_float32_precision(), amp::autocast_dtype(), {}, {}};
    for (const auto& [name, parameter] : parameters) {
      const auto* const object = parameter.data().object();
      signature.parameters.push_back(object);
      signature.parameters.push_back(object->variable == nullptr ? nullptr : object->variable->grad.object());
      signature.multipliers.push_back(parameter.wd_mult());
      add_hooks_of(*object, signature.parameters);
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
    require(autograd::on_tape(result.losses), [] {
      return "nothing is trained: the loss depends on no parameter that wants a gradient; are all frozen "
             "(GradReq::null)?";
    });
    const amp::GradScaler* const scaler = trainer.scaler();
    (scaler == nullptr ? result.losses : scaler->scale(result.losses, site)).backward(site);
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

  TracedStep trace_once(std::span<const ArraySpec> inputs, SourceLocation site) const {
    const detail::ParameterReads reads;
    graph::Tracer tracer;
    const NDArray samples = tracer.input(inputs[0]), labels = tracer.input(inputs[1]);
    TracedStep step{detail::watched_trace(tracer, [&] {
      const StepResult result = forward_and_back(samples, labels, site);
      trace_step(trainer, site);
      return options.predictions ? Arrays{result.losses, result.predictions} : Arrays{result.losses};
    })};
    step.by_hand = graph::writes_inputs(step.program.graph) || tracer.records_outside();
    step.others = reads.others([&](const Parameter& read) {
      return std::any_of(
          parameters.begin(), parameters.end(), [&](const auto& entry) { return entry.second.same(read); });
    });
    return step;
  }

  // Says in which inputs the size of the batch may be another one.
  void compare_batches(std::span<const ArraySpec> inputs, TracedStep& step, SourceLocation site) const {
    const std::vector<bool> batched = detail::batched_inputs(inputs);
    if (std::find(batched.begin(), batched.end(), true) == batched.end())
      return;
    const std::vector<ArraySpec> others = detail::with_other_batch(inputs, batched);
    const std::optional<graph::Graph> expected = detail::for_batch(step.program, others);
    if (!expected)
      return;
    try {
      const TracedStep other = trace_once(others, site);
      if (!other.by_hand && detail::is_same_with_constants(*expected, other.program.graph))
        step.batched = batched;
    } catch (const std::exception&) {  // it need not take such a batch
    }
  }

  std::shared_ptr<const TracedStep> trace(std::span<const ArraySpec> inputs, SourceLocation site) {
    auto step = std::make_shared<TracedStep>(trace_once(inputs, site));
    ++traced;
    if (step->by_hand)
      return step;
    require_gradients(step->program.graph);
    if (options.batch_sizes == BatchSizes::any)
      compare_batches(inputs, *step, site);
    return step;
  }

  // What was traced for a batch of another size, for this one; null where there is nothing.
  std::shared_ptr<const TracedStep> find_like(const Signature& signature) const {
    for (const Known& one : known) {
      if (one.traced == nullptr || one.is_outdated() || !one.signature.is_like(signature) ||
          !detail::is_other_batch(one.signature.inputs, signature.inputs, one.traced->batched))
        continue;
      if (std::optional<graph::Graph> graph = detail::for_batch(one.traced->program, signature.inputs)) {
        auto like = std::make_shared<TracedStep>(*one.traced);
        like->program.graph = std::move(*graph);
        return like;
      }
    }
    return nullptr;
  }

  Known made_of(Signature signature, std::shared_ptr<const TracedStep> step, Engine& engine) const {
    Known made{std::move(signature)};
    if (step->by_hand)
      return made;
    made.plan = std::make_unique<graph::Plan>(step->program.graph, options.plan, engine);
    made.brought = brought_by(step->program.graph, made.signature);
    made.others = step->others;
    if (step->is_for_any_batch())
      made.traced = std::move(step);
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
    const EngineScope here(x.engine());
    std::shared_ptr<const TracedStep> step = find_like(signature);
    if (step == nullptr)
      step = trace(signature.inputs, site);
    Known made = made_of(std::move(signature), std::move(step), x.engine());
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
      StepResult result = forward_and_back(x, y, site);
      trainer.step(samples, false, site);
      if (!options.predictions)
        result.predictions = {};
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
    return {results[0], options.predictions ? results[1] : NDArray()};
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
