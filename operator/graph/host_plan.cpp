#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/per_process.h>
#include <sluice/engine/detail/thread_number.h>
#include <sluice/engine/region.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/operator/graph/detail/host_run.h>
#include <sluice/operator/graph/host_plan.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

std::vector<ArraySpec> specs_of(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<ArraySpec> specs;
  for (const ValueId value : values)
    specs.push_back(graph.values[value].spec);
  return specs;
}

template <class Values>
void check(const char* what, const std::vector<ArraySpec>& specs, std::span<const Values> given) {
  require<ValueError>(given.size() == specs.size(), [&] {
    return message("host plan: there are ", specs.size(), ' ', what, "s, given were ", given.size());
  });
  for (std::size_t i = 0; i < specs.size(); ++i) {
    require<DTypeError>(given[i].dtype == specs[i].dtype, [&] {
      return message("host plan: ", what, ' ', i, " is of ", specs[i].dtype, ", given was ", given[i].dtype);
    });
    require<ShapeError>(given[i].count == specs[i].shape.size(), [&] {
      return message(
          "host plan: ", what, ' ', i, " has shape ", specs[i].shape, ", given were ", given[i].count, " values");
    });
    require<ValueError>(given[i].values != nullptr || given[i].count == 0, [&] {
      return message("host plan: ", what, ' ', i, " is a null pointer");
    });
  }
}

/// Where one run at a time goes on. On cache lines of its own: threads have each theirs.
struct alignas(64) Lane {
  static constexpr int k_longest_rest = 1023;
  std::mutex mutex = {};
  bool unfit = false;
  int resting = 0, rest = 0;  // runs by tasks before the graph is made once more, after that has failed
  std::atomic<std::uint64_t> launched{0};
#ifdef SLUICE_CUDA
  std::unique_ptr<HostRun> run = {};
#endif

  void rests() noexcept {
    resting = rest = std::min(2 * rest + 1, k_longest_rest);
  }
};

/// One request.
struct Asked {
  std::span<const HostValues> from;
  std::span<const HostRoom> to;
  SourceLocation site;
};

}  // namespace

struct HostPlan::State {
  const Graph graph;
  const HostPlanOptions options;
  Engine& engine;
  const Var of_engine;  // tells whether it is still there
  const std::uint32_t forks = sluice::detail::fork_count();
  const std::vector<ArraySpec> inputs = specs_of(graph, graph.inputs), outputs = specs_of(graph, graph.outputs);
  std::vector<Lane> lanes;
  std::atomic<std::uint64_t> pushed{0};
#ifdef SLUICE_CUDA
  std::mutex derived_mutex = {};
  std::shared_ptr<DerivedValues> derived = {};  // for all lanes
#endif
  sluice::detail::PerProcess<Plan> by_tasks = {};  // how tasks run it

  State(Graph made, const HostPlanOptions& how, Engine& on)
      : graph(std::move(made)), options(how), engine(on), of_engine(on.new_var()), lanes(number_of_lanes()) {
    verify(graph);
  }

  // Lanes are for a GPU alone.
  std::size_t number_of_lanes() const {
    const bool on_gpu = !inputs.empty() && inputs[0].device.is_gpu();
    return on_gpu ? std::max<std::size_t>(options.most_at_once, 1) : 0;
  }

  std::unique_lock<std::mutex> take_lane(Lane*& lane);
#ifdef SLUICE_CUDA
  std::shared_ptr<DerivedValues> derived_here();
  bool run_first(Lane& lane, const Asked& asked);
  bool run_here(Lane& lane, const Asked& asked);
#endif
  bool launch(std::span<const HostValues> from, std::span<const HostRoom> to, SourceLocation site);
  void push(std::span<const HostValues> from, std::span<const HostRoom> to, SourceLocation site);
};

// Each thread comes back to the lane that it used before, where nobody else is there.
std::unique_lock<std::mutex> HostPlan::State::take_lane(Lane*& lane) {
  const std::size_t first = sluice::detail::this_thread_number() % lanes.size();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    lane = &lanes[(first + i) % lanes.size()];
    if (std::unique_lock hold(lane->mutex, std::try_to_lock); hold.owns_lock())
      return hold;
  }
  lane = &lanes[first];
  return std::unique_lock(lane->mutex);
}

#ifdef SLUICE_CUDA
std::shared_ptr<DerivedValues> HostPlan::State::derived_here() {
  const std::lock_guard hold(derived_mutex);
  if (derived == nullptr || !derived->is_current())
    derived = DerivedValues::of(
        graph, options.keep_derived ? Derives::of_constants : Derives::of_nothing, of_engine.engine());
  return derived;
}

bool HostPlan::State::run_first(Lane& lane, const Asked& asked) {
  lane.run.reset();
  std::unique_ptr<HostRun> made = HostRun::make(graph, derived_here(), of_engine.engine());
  lane.unfit = made == nullptr;
  if (lane.unfit)
    return false;
  if (!made->run_first(asked.from, asked.to, asked.site)) {
    lane.rests();
    return false;
  }
  lane.run = std::move(made);
  lane.rest = 0;
  return true;
}

// What stands in the way may pass, as too little memory, a call that CUDA refuses, or bad values: tasks say what it is.
bool HostPlan::State::run_here(Lane& lane, const Asked& asked) {
  if (lane.unfit)
    return false;
  if (lane.resting > 0) {
    --lane.resting;
    return false;
  }
  try {
    if (lane.run != nullptr && lane.run->renew(asked.site)) [[likely]] {
      lane.rest = 0;
      return lane.run->run(asked.from, asked.to);
    }
    return run_first(lane, asked);
  } catch (const EngineStopped&) {
    throw;
  } catch (const Error&) {
    lane.rests();
    return false;
  }
}

bool HostPlan::State::launch(std::span<const HostValues> from, std::span<const HostRoom> to, SourceLocation site) {
  if (lanes.empty() || sluice::detail::EngineAccess::body_here() != nullptr || region_records() ||
      forks != sluice::detail::fork_count())  // then the parent's threads may hold the lanes
    return false;
  Lane* lane = nullptr;
  const std::unique_lock hold = take_lane(lane);
  if (!run_here(*lane, {from, to, site}))
    return false;
  lane->launched.store(lane->launched.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  return true;
}
#else
bool HostPlan::State::launch(std::span<const HostValues>, std::span<const HostRoom>, SourceLocation) {
  return false;
}
#endif

void HostPlan::State::push(std::span<const HostValues> from, std::span<const HostRoom> to, SourceLocation site) {
  Engine& there = of_engine.engine();
  const EngineScope here(there);
  const CallSinkScope nobody(nullptr);
  const autograd::PauseScope unrecorded;
  pushed.fetch_add(1, std::memory_order_relaxed);
  // Made without a lock: who is short of memory for it may run tasks, which may come here.
  Plan& plan = by_tasks.get([&] {
    return std::make_unique<Plan>(
        graph, PlanOptions{.optimise = false, .keep_results = true, .keep_derived = options.keep_derived}, there);
  });
  Arrays arrays;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const ArraySpec& spec = inputs[i];
    arrays.push_back(from_values(
        from[i].values, spec.dtype, from[i].count, spec.shape, {.dtype = spec.dtype, .device = spec.device}, site));
  }
  const Arrays results = plan.run(arrays, site);
  for (std::size_t i = 0; i < to.size(); ++i)
    results[i].read_out(to[i].values, to[i].dtype, to[i].count, site);
}

namespace {

Graph made_ready(const Graph& graph, const HostPlanOptions& options) {
  if (!options.optimise)
    return graph;
  const Graph made = optimised(graph, options.rounding);
  return options.keep_derived ? with_ordered_weights(made) : made;
}

}  // namespace

HostPlan::HostPlan(const Graph& graph, const HostPlanOptions& options, Engine& engine)
    : state_(std::make_unique<State>(made_ready(graph, options), options, engine)) {
  for (const ArraySpec& input : state_->inputs) {
    require<DeviceError>(input.device == state_->inputs[0].device, [&] {
      return message("host plan: inputs on ", state_->inputs[0].device, " and on ", input.device);
    });
  }
  for (const Value& value : state_->graph.values) {
    require<ValueError>(value.source != Source::constant || &value.array.engine() == &engine, [&] {
      return message("host plan: reads an array of shape ", value.spec.shape, " of another engine than its own");
    });
  }
}

HostPlan::~HostPlan() = default;

void HostPlan::run(std::span<const HostValues> inputs, std::span<const HostRoom> outputs, SourceLocation site) {
  State& state = *state_;
  check("input", state.inputs, inputs);
  check("output", state.outputs, outputs);
  if (!state.launch(inputs, outputs, site))
    state.push(inputs, outputs, site);
}

const std::vector<ArraySpec>& HostPlan::inputs() const noexcept {
  return state_->inputs;
}

const std::vector<ArraySpec>& HostPlan::outputs() const noexcept {
  return state_->outputs;
}

const Graph& HostPlan::graph() const noexcept {
  return state_->graph;
}

HostPlanCounts HostPlan::counts() const noexcept {
  HostPlanCounts counts;
  for (const Lane& lane : state_->lanes)
    counts.launched += lane.launched.load(std::memory_order_relaxed);
  counts.pushed = state_->pushed.load(std::memory_order_relaxed);
  return counts;
}

}  // namespace sluice::graph
