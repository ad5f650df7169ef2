#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/per_process.h>
#include <sluice/engine/detail/thread_number.h>
#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/detail/operator_node.h>
#include <sluice/operator/graph/detail/arena.h>
#include <sluice/operator/graph/detail/derived_values.h>
#include <sluice/operator/graph/detail/effects.h>
#include <sluice/operator/graph/detail/plan_access.h>
#include <sluice/operator/graph/detail/replay.h>
#include <sluice/operator/graph/passes.h>
#include <sluice/operator/graph/plan.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/sink.h>

namespace sluice::graph {

namespace {

void check_inputs(const Graph& graph, std::span<const NDArray> inputs) {
  require<ValueError>(inputs.size() == graph.inputs.size(), [&] {
    return message("plan: takes ", graph.inputs.size(), " inputs, was given ", inputs.size());
  });
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const ArraySpec& spec = graph.values[graph.inputs[i]].spec;
    const sluice::detail::ArrayObject& given = sluice::detail::object_of(inputs[i], "plan");
    require<ShapeError>(given.shape == spec.shape, [&] {
      return message("plan: input ", i, " has shape ", given.shape, ", the graph takes ", spec.shape);
    });
    require<DTypeError>(given.dtype == spec.dtype, [&] {
      return message("plan: input ", i, " is ", given.dtype, ", the graph takes ", spec.dtype);
    });
    require<DeviceError>(given.device == spec.device, [&] {
      return message("plan: input ", i, " is on ", given.device, ", the graph's is on ", spec.device);
    });
  }
}

}  // namespace

Arrays evaluate(const Graph& graph, std::span<const NDArray> inputs) {
  check_inputs(graph, inputs);
  return replay(graph, inputs);
}

namespace {

bool is_read(const Graph& graph, ValueId value) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), [value](const Node& node) {
    return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
  });
}

// What the program wrote is not what it was then: only who writes may read it.
void refuse_states(const Graph& graph, const std::vector<bool>& rewritten) {
  for (const Node& node : graph.nodes) {
    std::vector<ValueId> writes;
    for_each_write(graph, node, [&](ValueId root) { writes.push_back(root); });
    for_each_read(graph, node, [&](ValueId root) {
      const bool is_state = graph.values[root].source == Source::constant && rewritten[root];
      require<UnsupportedError>(!is_state || std::find(writes.begin(), writes.end(), root) != writes.end(), [&] {
        return message(
            node.op->name, ": reads an array that the program writes too; its values of then are needed and are gone");
      });
    });
  }
}

}  // namespace

Arrays evaluate_again(const Graph& graph, std::span<const NDArray> inputs, std::span<const NDArray> random) {
  check_inputs(graph, inputs);
  const std::vector<bool> rewritten = rewritten_roots(graph);
  std::vector<std::pair<ValueId, NDArray>> given;
  refuse_states(graph, rewritten);
  std::size_t drawn = 0;
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    const Value& value = graph.values[id];
    if (value.source == Source::random && drawn < random.size() && is_read(graph, id))
      given.emplace_back(id, random[drawn++]);
    if (value.source == Source::constant && rewritten[value.root])
      given.emplace_back(id, value.array.detach().copy());
  }
  return replay(graph, inputs, {.given = given});
}

namespace {

/// A place for an arena, and who may push there. On cache lines of its own: threads have each theirs.
struct alignas(64) Place {
  std::mutex mutex = {};
  std::shared_ptr<DerivedValues> derived = {};  // whose rest the arena runs; null: it runs all
  std::unique_ptr<Arena> arena = {};
};

// A push may run other tasks, which may run the plan: who is in one does not wait for a place, which may be held by the
// push that it runs in.
thread_local int pushing = 0;

struct Pushing {
  Pushing() { ++pushing; }
  Pushing(const Pushing&) = delete;
  Pushing& operator=(const Pushing&) = delete;
  ~Pushing() { --pushing; }
};

}  // namespace

/// What a plan runs, and how.
struct Plan::Ready {
  Graph graph;
  PlanOptions options;
  std::size_t bytes_without_budget = 0;  // if there is one
};

struct Plan::State {
  Graph graph;
  const PlanOptions options;
  const std::size_t bytes_without_budget;
  Engine& engine;
  const std::uint32_t forks = sluice::detail::fork_count();
  sluice::detail::PerProcess<State> in_child = {};
  std::vector<Place> places;
  MemoryPlan memory_plan = {};
  std::size_t bytes_derived = 0;
  std::mutex derived_mutex = {};
  Derives derives;
  std::shared_ptr<DerivedValues> derived = {};

  State(Ready made, Engine& on)
      : graph(std::move(made.graph)),
        options(made.options),
        bytes_without_budget(made.bytes_without_budget),
        engine(on),
        places(1),
        derives(options.keep_derived ? Derives::of_constants : Derives::of_nothing) {
    verify(graph);
    Place first;
    try {
      derived = DerivedValues::of(graph, derives, engine);
      fill(first, derived);
    } catch (const OutOfMemory&) {
      if (!keep_less(first))
        throw;
    }
    bytes_derived = derived != nullptr ? derived->bytes() : 0;
    memory_plan = first.arena->memory();
    if (!first.arena->writes_outside())  // otherwise runs follow each other anyway
      places = std::vector<Place>(std::max<std::size_t>(options.most_arenas, 1));
    Place& here = place_here();
    here.derived = std::move(first.derived);
    here.arena = std::move(first.arena);
  }

  std::unique_ptr<Arena> new_arena() { return std::make_unique<Arena>(graph, options, engine); }
  // Places of the parent's threads may be locked, and halfway.
  State& of_this_process() {
    if (forks == sluice::detail::fork_count()) [[likely]]
      return *this;
    return in_child.get([this] {
      return std::make_unique<State>(Ready{graph, options, bytes_without_budget}, engine);
    });
  }
  // Each thread comes back to the memory that it used before.
  Place& place_here() { return places[sluice::detail::this_thread_number() % places.size()]; }

  void fill(Place& place, std::shared_ptr<DerivedValues> of) {
    place.arena = nullptr;
    place.derived = std::move(of);
    place.arena =
        place.derived == nullptr ? new_arena() : std::make_unique<Arena>(place.derived->rest(), options, engine);
  }
  // False: another thread looks after what is kept, and this one may not wait.
  bool fill_anew(Place& place, bool may_wait) {
    std::unique_lock hold(derived_mutex, std::defer_lock);
    if (may_wait)
      hold.lock();
    else if (!hold.try_lock())
      return false;
    if (derived != nullptr && !derived->is_current())
      derived = DerivedValues::of(graph, derives, engine);
    fill(place, derived);
    return true;
  }
  // What is kept must not stand in the way of a graph that would do without. False: it does not.
  bool keep_less(Place& place) {
    const std::unique_lock hold(derived_mutex, std::try_to_lock);
    if (!hold.owns_lock() || (derives == Derives::of_nothing && place.derived == derived))
      return false;
    place.arena = nullptr;
    place.derived = nullptr;
    if (derives == Derives::of_constants) {
      derives = Derives::of_nothing;
      derived = nullptr;  // its memory first
      derived = DerivedValues::of(graph, derives, engine);
    }
    fill(place, derived);
    return true;
  }
  bool make_ready(Place& place, bool may_wait, SourceLocation site) {
    try {
      return renew(place, may_wait, site);
    } catch (const OutOfMemory&) {
      if (!keep_less(place))
        throw;
    }
    return renew(place, may_wait, site);
  }
  bool renew(Place& place, bool may_wait, SourceLocation site) {
    if ((place.arena == nullptr || !place.arena->is_current()) && !fill_anew(place, may_wait))
      return false;
    while (place.derived != nullptr) {
      const DerivedValues::Renewal renewal = place.derived->renew(may_wait, site);
      if (renewal != DerivedValues::Renewal::outdated)
        return renewal == DerivedValues::Renewal::ready;
      if (!fill_anew(place, may_wait))
        return false;
    }
    return true;
  }
};

// Recomputation comes last: it sees what is really kept between nodes. Fusion behind it would put copies together with
// the nodes whose results they are there to let go.
Plan::Ready Plan::made_ready(const Graph& graph, const PlanOptions& options) {
  Ready made{graph, options};
  if (options.optimise) {
    made.graph = optimised(graph, options.rounding, options.reductions);
    if (options.keep_derived)
      made.graph = with_ordered_weights(made.graph);
  }
  if (options.memory_budget == 0 || !options.share_memory)
    return made;
  const Sharing asked = options.share_in_order ? Sharing::in_order : Sharing::proven;
  made.bytes_without_budget = planned_bytes(made.graph, asked, options.keep_derived);
  if (made.bytes_without_budget <= options.memory_budget)
    return made;
  Graph less = with_recomputation(made.graph, {.budget = options.memory_budget, .keep_derived = options.keep_derived});
  if (planned_bytes(less, Sharing::in_order, options.keep_derived) < made.bytes_without_budget) {
    made.graph = std::move(less);
    made.options.share_in_order = true;
  }
  return made;
}

Plan::Plan(const Graph& graph, const PlanOptions& options, Engine& engine)
    : state_(std::make_unique<State>(made_ready(graph, options), engine)) {}

Plan::~Plan() {
  if (state_->forks != sluice::detail::fork_count())
    static_cast<void>(state_.release());  // the parent's
}

Arrays Plan::run(std::span<const NDArray> inputs, SourceLocation site) {
  State& state = state_->of_this_process();
  check_inputs(state.graph, inputs);
  const CallSinkScope nobody(nullptr);
  const autograd::PauseScope unrecorded;
  const EngineScope here(state.engine);
  Place& place = state.place_here();
  std::unique_lock hold(place.mutex, std::defer_lock);
  const bool may_wait = pushing == 0 && sluice::detail::EngineAccess::body_here() == nullptr;
  if (may_wait)
    hold.lock();
  else if (!hold.try_lock())
    return state.new_arena()->run(inputs, site);
  const Pushing here_too;
  if (!state.make_ready(place, may_wait, site))
    return state.new_arena()->run(inputs, site);
  return place.arena->run(inputs, site);
}

const Graph& Plan::graph() const noexcept {
  return state_->graph;
}

PlanMemory Plan::memory() const noexcept {
  const std::size_t bytes = bytes_of(state_->memory_plan), before = state_->bytes_without_budget;
  return {bytes, state_->memory_plan.bytes_without_sharing, state_->bytes_derived, before == 0 ? bytes : before};
}

const MemoryPlan& Plan::memory_plan() const noexcept {
  return state_->memory_plan;
}

// All memory is cut alike; that a capture came to nothing, each finds out for itself.
std::vector<PlanSegment> Plan::segments() const {
  std::vector<PlanSegment> all;
  for (Place& place : state_->of_this_process().places) {
    const std::lock_guard hold(place.mutex);
    if (place.arena == nullptr)
      continue;
    std::vector<PlanSegment> here = place.arena->segments();
    for (std::size_t i = 0; i < here.size() && i < all.size(); ++i) {
      if (all[i].captured)
        all[i] = std::move(here[i]);
    }
    if (all.empty())
      all = std::move(here);
  }
  return all;
}

double PlanAccess::seconds_alone(const Plan& plan, int launches) {
  Place& place = plan.state_->of_this_process().place_here();
  const std::lock_guard hold(place.mutex);
  return place.arena == nullptr ? 0 : place.arena->seconds_alone(launches);
}

RegionCounts Plan::counts() const {
  RegionCounts sum;
  for (Place& place : state_->of_this_process().places) {
    const std::lock_guard hold(place.mutex);
    if (place.arena != nullptr)
      add_to(sum, place.arena->counts());
  }
  return sum;
}

}  // namespace sluice::graph
