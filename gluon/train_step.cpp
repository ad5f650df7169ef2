#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <sluice/engine/error.h>
#include <sluice/gluon/detail/any_batch.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/forward_with_loss.h>
#include <sluice/gluon/detail/known_steps.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/detail/parameter_reads.h>
#include <sluice/gluon/detail/step_metrics.h>
#include <sluice/gluon/detail/why_by_hand.h>
#include <sluice/gluon/train_step.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon {

namespace {

using detail::Batch;
using detail::Brought;
using detail::Known;
using detail::Signature;
using detail::TracedStep;

}  // namespace

struct TrainStep::State {
  const Block& net;
  const Block& loss;
  Trainer& trainer;
  const TrainStepOptions options;
  detail::StepMetrics metrics = detail::StepMetrics();
  std::vector<ParameterDict::Entry> parameters = {};
  std::deque<Known> known = {};  // the one used last comes first
  Signature asked = {{}, 0, {}, {}, {}, {}};
  std::size_t traced = 0;
  bool is_listed = false;
  bool shapes_were_known = true;             // at the last step
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

  // Into one whose room is there: steps are asked for again and again.
  void describe(const Batch& batch, Signature& signature) const {
    signature.inputs.clear();
    signature.parameters.clear();
    signature.multipliers.clear();
    signature.precision = sluice::detail::current_float32_precision();
    signature.autocast = amp::autocast_dtype();
    for (const std::span<const NDArray> given : {batch.samples, batch.labels}) {
      for (const NDArray& input : given)
        signature.inputs.push_back({input.shape(), input.dtype(), input.device()});
    }
    signature.samples = batch.samples.size();
    for (const auto& [name, parameter] : parameters) {
      const auto* const object = parameter.data().object();
      signature.parameters.push_back(object);
      signature.parameters.push_back(object->variable == nullptr ? nullptr : object->variable->grad.object());
      signature.multipliers.push_back(parameter.wd_mult());
      add_hooks_of(*object, signature.parameters);
    }
    for (const auto& [name, parameter] : prepared(trainer))
      signature.parameters.push_back(parameter.data().object());
    trainer.optimizer().add_step_arrays(prepared(trainer), signature.parameters);
    for (const NDArray& sums : metrics.sums())
      signature.parameters.push_back(sums.object());
  }

  StepResult forward(const Batch& batch, SourceLocation site) const {
    const autograd::RecordScope record;
    return detail::forward_with_loss(net, loss, batch.samples, batch.labels, site);
  }

  StepResult forward_and_back(const Batch& batch, SourceLocation site) const {
    StepResult result = forward(batch, site);
    require(autograd::on_tape(result.losses), [] {
      return "nothing is trained: the loss depends on no parameter that wants a gradient; are all frozen "
             "(GradReq::null)?";
    });
    const amp::GradScaler* const scaler = trainer.scaler();
    (scaler == nullptr ? result.losses : scaler->scale(result.losses, site)).backward(site);
    result.losses = result.losses.detach();
    detail::detach_all(result.outputs);
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

  TracedStep trace_once(std::span<const ArraySpec> inputs, std::size_t samples, SourceLocation site) const {
    const detail::ParameterReads reads;
    graph::Tracer tracer;
    Arrays given;
    for (const ArraySpec& input : inputs)
      given.push_back(tracer.input(input));
    const std::span<const NDArray> all = given;
    std::vector<std::size_t> undefined;
    TracedStep step{detail::watched_trace(tracer, [&] {
      const StepResult result = forward_and_back({all.first(samples), all.subspan(samples)}, site);
      trace_step(trainer, site);
      metrics.trace(samples < all.size() ? all[samples] : NDArray(), with_predictions(result));
      Arrays made{result.losses};
      for (std::size_t i = 0; options.predictions && i < result.outputs.size(); ++i) {
        if (result.outputs[i].defined())
          made.push_back(result.outputs[i]);
        else
          undefined.push_back(i);
      }
      return made;
    })};
    step.undefined = std::move(undefined);
    step.by_hand = tracer.records_outside() ? tracer.beyond_calls() : detail::why_writing(step.program.graph);
    step.others = reads.others([&](const Parameter& read) {
      return std::any_of(
          parameters.begin(), parameters.end(), [&](const auto& entry) { return entry.second.same(read); });
    });
    return step;
  }

  // Says in which inputs the size of the batch may be another one.
  void compare_batches(const Signature& given, TracedStep& step, SourceLocation site) const {
    const std::vector<bool> batched = detail::batched_inputs(given.inputs);
    if (std::find(batched.begin(), batched.end(), true) == batched.end())
      return;
    const std::vector<ArraySpec> others = detail::with_other_batch(given.inputs, batched);
    const std::optional<graph::Graph> expected = detail::for_batch(step.program, others);
    if (!expected)
      return;
    try {
      const TracedStep other = trace_once(others, given.samples, site);
      if (other.by_hand.empty() && other.undefined == step.undefined &&
          detail::is_same_with_constants(*expected, other.program.graph))
        step.batched = batched;
    } catch (const std::exception&) {  // it need not take such a batch
    }
  }

  std::shared_ptr<const TracedStep> trace(const Signature& given, SourceLocation site) {
    auto step = std::make_shared<TracedStep>(trace_once(given.inputs, given.samples, site));
    ++traced;
    if (!step->by_hand.empty())
      return step;
    require_gradients(step->program.graph);
    if (options.batch_sizes == BatchSizes::any)
      compare_batches(given, *step, site);
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
    made.by_hand = step->by_hand;
    if (!made.by_hand.empty())
      return made;
    made.plan = std::make_unique<graph::Plan>(step->program.graph, options.plan, engine);
    made.brought = brought_by(step->program.graph, made.signature);
    made.others = step->others;
    made.undefined = step->undefined;
    if (step->is_for_any_batch())
      made.traced = std::move(step);
    return made;
  }

  const Known& known_for(const Batch& batch, SourceLocation site) {
    describe(batch, asked);
    const auto found =
        std::find_if(known.begin(), known.end(), [&](const Known& one) { return one.signature == asked; });
    if (found != known.end() && !found->is_outdated()) {
      std::rotate(known.begin(), found, found + 1);
      return known.front();
    }
    Engine& engine = batch.samples.front().engine();
    const EngineScope here(engine);
    std::shared_ptr<const TracedStep> step = find_like(asked);
    if (step == nullptr) {
      step = trace(asked, site);
      describe(batch, asked);  // there are sums of metrics now
    }
    Known made = made_of(asked, std::move(step), engine);
    if (found != known.end())
      known.erase(found);
    if (known.size() >= std::max<std::size_t>(options.most_plans, 1))
      known.pop_back();
    known.push_front(std::move(made));
    return known.front();
  }

  // Empty: a plan would not do the same.
  Arrays run_prepared(const Batch& batch, SourceLocation site) {
    try {
      if (graph::Plan* const plan = known_for(batch, site).plan.get())
        return plan->run(batch.all(), site);
      cancel_step(trainer);
      return {};
    } catch (...) {
      cancel_step(trainer);
      throw;
    }
  }

  static void check(const Batch& batch) {
    const Arrays all = batch.all();
    const bool defined = std::all_of(all.begin(), all.end(), [](const NDArray& each) { return each.defined(); });
    require(defined && !batch.samples.empty() && batch.samples.front().ndim() > 0, [] {
      return "takes samples and labels along a first axis";
    });
  }

  static StepResult with_predictions(StepResult result) {
    if (!result.outputs.empty())
      result.predictions = result.outputs.front();
    return result;
  }

  StepResult result_of(const NDArray& losses, const Arrays& outputs) const {
    StepResult result{.losses = losses};
    if (options.predictions && !outputs.empty()) {
      result.predictions = outputs.front();
      result.outputs = outputs;
    }
    return result;
  }

  StepResult run(const Batch& batch, SourceLocation site) {
    check(batch);
    const std::int64_t samples = batch.samples.front().shape()[0];
    const auto by_hand = [&] {
      const StepResult result = with_predictions(forward_and_back(batch, site));
      trainer.step(samples, false, site);
      metrics.update(batch.label(), result, site);
      return result_of(result.losses, result.outputs);
    };
    shapes_were_known = is_complete();
    if (!shapes_were_known)
      return by_hand();
    const Arrays all = batch.all();
    const auto on_tape = [](const NDArray& each) { return autograd::on_tape(each); };
    require<UnsupportedError>(std::none_of(all.begin(), all.end(), on_tape), [] {
      return "samples or labels are on the tape, whose gradients a step as a graph does not compute; pass detach()";
    });
    trainer.prepare_step(samples, site);
    const Arrays results = run_prepared(batch, site);
    if (results.empty())
      return by_hand();
    for (const auto& [name, parameter] : prepared(trainer))
      parameter.mark_grad_used();
    const StepResult result = result_of(results.front(), known.front().outputs_of(std::span(results).subspan(1)));
    metrics.finish(batch.label(), result, site);
    return result;
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
  return call({&x, 1}, {&y, 1}, site);
}

StepResult TrainStep::operator()(
    std::initializer_list<NDArray> samples, std::initializer_list<NDArray> labels, SourceLocation site) {
  return call({samples.begin(), samples.size()}, {labels.begin(), labels.size()}, site);
}

StepResult TrainStep::call(std::span<const NDArray> samples, std::span<const NDArray> labels, SourceLocation site) {
  return detail::called("TrainStep", site, [&] { return state_->run({samples, labels}, site); });
}

void TrainStep::add_up(std::vector<std::shared_ptr<metric::Metric>> metrics) {
  if (metrics == state_->metrics.all())
    return;
  state_->metrics = detail::StepMetrics(std::move(metrics));
  state_->known.clear();  // rather than memory for plans of both kinds
}

const graph::Plan* TrainStep::plan() const noexcept {
  return state_->known.empty() ? nullptr : state_->known.front().plan.get();
}

std::size_t TrainStep::traced() const noexcept {
  return state_->traced;
}

std::string TrainStep::hybrid_reason() const {
  if (!state_->shapes_were_known)
    return "by hand: a parameter had no values yet, whose shape the first step says";
  if (state_->known.empty())
    return "";
  const Known& last = state_->known.front();
  return last.plan == nullptr ? "by hand: " + last.by_hand : detail::why_cut(*last.plan);
}

}  // namespace sluice::gluon
