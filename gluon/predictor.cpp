#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/engine/detail/per_process.h>
#include <sluice/engine/detail/published.h>
#include <sluice/engine/error.h>
#include <sluice/gluon/block.h>
#include <sluice/gluon/detail/called.h>
#include <sluice/gluon/detail/network_changes.h>
#include <sluice/gluon/predictor.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/respecified.h>
#include <sluice/operator/graph/trace.h>
#include <sluice/operator/matmul/precision.h>

namespace sluice::gluon {

namespace {

/// The network as it was when it was traced.
struct Program {
  std::uint64_t changes = 0;  // of networks
  Float32Precision precision = {};
  std::vector<Parameter> parameters = {};
  std::vector<const void*> arrays = {};  // of those, by identity: `traced` keeps them
  graph::Graph traced = {};
  std::shared_ptr<graph::HostPlan> plan = {};
};

bool is_same_constant(const graph::Value& a, const graph::Value& b) {
  return a.source != graph::Source::constant || a.array.same(b.array);
}

// The very same arrays too.
bool is_same(const graph::Graph& a, const graph::Graph& b) {
  return graph::is_same_program(a, b) &&
         std::equal(a.values.begin(), a.values.end(), b.values.begin(), is_same_constant);
}

// `changes`: when the request began, so that networks that others build meanwhile do not hold it up.
bool is_current(const Program& program, std::uint64_t changes) {
  if (program.changes < changes || program.precision != sluice::detail::current_float32_precision())
    return false;
  for (std::size_t i = 0; i < program.parameters.size(); ++i) {
    if (program.parameters[i].data().object() != program.arrays[i])
      return false;
  }
  return true;
}

}  // namespace

struct Predictor::State {
  const Block& net;
  const PredictorOptions options;
  const SourceLocation site;
  Engine& engine = Engine::current();
  const Var of_engine = engine.new_var();  // tells whether it is still there
  const std::vector<ArraySpec> inputs;
  // Of who traces. Who is short of memory for it runs tasks, which may ask, and trace, too.
  sluice::detail::PerProcess<std::recursive_mutex> mutex = {};
  std::mutex publishing = {};
  const sluice::detail::HeldOverForks held{publishing};
  sluice::detail::Published<Program> program = {};

  State(const Block& of, std::vector<ArraySpec> specs, const PredictorOptions& how, SourceLocation where)
      : net(of), options(how), site(where), inputs(std::move(specs)) {}

  graph::Graph trace() const;
  void trace_again(std::uint64_t changes, bool always = false);
};

graph::Graph Predictor::State::trace() const {
  const autograd::ModeScope predicting(false, false);
  graph::Tracer tracer;
  Arrays arrays;
  for (const ArraySpec& spec : inputs)
    arrays.push_back(tracer.input(spec));
  return tracer.trace([&] { return net.call(arrays, site); });
}

void Predictor::State::trace_again(std::uint64_t changes, bool always) {
  std::vector<std::unique_ptr<const Program>> gone;  // dropped without the lock
  const std::lock_guard hold(mutex.get());
  if (const Program* const known = program.latest(); known != nullptr && !always && is_current(*known, changes))
    return;
  Engine& there = of_engine.engine();
  const EngineScope here(there);
  auto made = std::make_unique<Program>();
  made->changes = detail::network_changes();
  made->precision = sluice::detail::current_float32_precision();
  for (const auto& [name, parameter] : net.collect_params()) {
    if (!parameter.is_initialized())
      continue;  // forward can do without; where it cannot, the trace says so
    made->parameters.push_back(parameter);
    made->arrays.push_back(parameter.data().object());
  }
  made->traced = trace();
  const Program* const before = program.latest();
  if (before != nullptr && before->precision == made->precision && is_same(before->traced, made->traced)) {
    made->plan = before->plan;
  } else {
    made->plan = std::make_shared<graph::HostPlan>(
        made->traced,
        graph::HostPlanOptions{
            .most_at_once = options.most_at_once, .rounding = options.rounding, .keep_derived = options.keep_derived},
        there);
  }
  const std::lock_guard whole(publishing);
  gone = program.publish(std::move(made));
}

namespace {

std::vector<ArraySpec> specs_of(const std::vector<NDArray>& examples) {
  std::vector<ArraySpec> specs;
  for (const NDArray& example : examples) {
    require(example.defined(), [] { return "Predictor: an example is an undefined NDArray"; });
    specs.push_back({example.shape(), example.dtype(), example.device()});
  }
  require(!specs.empty(), [] { return "Predictor: there is no example of an input"; });
  return specs;
}

// What waits for its shape gets it, of abstract examples when they are traced.
void complete(const Block& net, const std::vector<NDArray>& examples, SourceLocation site) {
  const ParameterDict parameters = net.collect_params();
  const autograd::ModeScope predicting(false, false);
  const auto has_shape = [](const auto& one) { return one.second.is_initialized(); };
  const auto has_memory = [](const NDArray& one) { return one.object()->buffer != nullptr; };
  if (!std::all_of(parameters.begin(), parameters.end(), has_shape) &&
      std::all_of(examples.begin(), examples.end(), has_memory))
    (void)net.call(examples, site);
}

}  // namespace

Predictor::Predictor(
    const Block& net, std::vector<NDArray> examples, const PredictorOptions& options, SourceLocation site) {
  detail::called("Predictor", site, [&] {
    state_ = std::make_unique<State>(net, specs_of(examples), options, site);
    complete(net, examples, site);
    state_->trace_again(detail::network_changes());
  });
}

Predictor::~Predictor() = default;

void Predictor::run(
    std::span<const graph::HostValues> inputs, std::span<const graph::HostRoom> outputs, SourceLocation site) const {
  detail::called("Predictor", site, [&] {
    const std::uint64_t changes = detail::network_changes();
    for (;;) {
      {
        const sluice::detail::Published<Program>::Reading program(state_->program);
        if (is_current(*program, changes)) [[likely]]
          return program->plan->run(inputs, outputs, site);
      }
      state_->trace_again(changes);
    }
  });
}

void Predictor::retrace() {
  detail::called("Predictor", state_->site, [&] { state_->trace_again(detail::network_changes(), true); });
}

const std::vector<ArraySpec>& Predictor::inputs() const noexcept {
  return state_->inputs;
}

std::vector<ArraySpec> Predictor::outputs() const {
  return sluice::detail::Published<Program>::Reading(state_->program)->plan->outputs();
}

Predictor::Counts Predictor::counts() const {
  return sluice::detail::Published<Program>::Reading(state_->program)->plan->counts();
}

}  // namespace sluice::gluon
