// Which tasks make a batch, where they stand in it, and how it is launched.
#include <algorithm>
#include <chrono>
#include <limits>
#include <tuple>
#include <utility>

#include <sluice/engine/cuda/gpu.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/test_faults.h>

namespace sluice::detail {

using cuda::cuda_check;

Batches::Batches(Gpu& gpu) : gpu_(gpu), batch_(gpu.logical, gpu.device) {}

bool Batches::takes(const TaskNode& task) {
  return gpu_.options.batches && task.capturable && !task.legacy_stream && class_of(task) == StreamClass::normal &&
         gpu_.rules.may_batch(!batch_.empty(), task.name);
}

// A batch waits as a whole, so it ends before a task that waits for something that may take long.
bool Batches::waits_for_others(const PositionSet& needs) const {
  return std::any_of(needs.begin(), needs.end(), [this](Position need) {
    const LogicalStream& logical = gpu_.logical.of(need);
    if (logical.device() == gpu_.device && logical.kind() == StreamKind::compute)
      return false;
    return !gpu_.slots.is_known(logical, need.sequence()) &&
           std::find(batch_.outside().begin(), batch_.outside().end(), need) == batch_.outside().end();
  });
}

// Bodies that enqueued nothing may have left it open.
bool Batches::open(const PositionSet& needs) noexcept try {
  if (!batch_.empty())
    return true;
  slot_ = &gpu_.slots.choose_for_batch(needs, slot_);
  if (!batch_.capture().is_open())
    batch_.open(gpu_.slots.batch_urgency(), gpu_.rules.choose_width() > 1);
  return true;
} catch (...) {
  return false;
}

// What has not been passed yet: most of what operands were written by has, long ago, and is then nobody's need.
PositionSet Batches::still_open(const PositionSet& needs) const {
  PositionSet open;
  for (const Position need : needs) {
    if (gpu_.logical.of(need).done() < need.sequence())
      open.add(need);
  }
  return open;
}

// `all` says beside what is to be waited for which stream goes on with what lies there.
void Batches::issue(TaskNode* task, const PositionSet& all) {
  const PositionSet needs = still_open(all);
  if (!batch_.empty() && ((gpu_.rules.is_breakable(batch_) && !batch_.continues(needs)) || waits_for_others(needs)))
    launch();
  Batch::Step& step = batch_.next_step();
  if (FailureRef failure = gpu_.direct.failed_meanwhile(*task))
    return gpu_.direct.fail_unissued(task, std::move(failure), false);
  if (!open(all))
    return gpu_.direct.issue(task, all);
  write_down(step, *task, needs);
  LogicalStream& logical = *step.logical;
  FailureRef failure;
  if (!gpu_.bodies.run(
          {.slot = slot_, .logical = &logical, .needs = &needs, .task = task, .name = task->name, .captured = true},
          failure))
    return;
  if (gpu_.bodies.gave_up_capture() || !is_intact(task->name, failure != nullptr)) {
    launch_one_by_one();
    void_place(logical, *task);
    return gpu_.direct.issue(task, all);
  }
  join(task, step, std::move(failure));
}

// All but its body, while nothing is lost yet if there is no memory.
void Batches::write_down(Batch::Step& step, const TaskNode& task, const PositionSet& needs) {
  step.name = task.name;
  step.site = task.site();
  step.push_number = task.push_number;
  step.logical = &choose_branch(needs);
  step.needs = needs;
  step.uses = gpu_.core.late().uses_of(task);
  step.runs_anyway = task.on_failed_input == OnFailedInput::run;
}

// Where a task can begin soonest, counted in tasks: behind what its branch has already and what it needs (list
// scheduling, as in Topcuoglu, Hariri and Wu, 2002). If that is the same, where it continues something, else where
// least lies. In an order of the slot's own: a batch finds its branches in the same order as the batch before it that
// was like it.
LogicalStream& Batches::choose_branch(const PositionSet& needs) {
  if (const int drawn = gpu_.rules.draw(gpu_.rules.width()); drawn >= 0 || gpu_.rules.width() == 1)
    return gpu_.slots.branch(*slot_, std::max(drawn, 0), batch_.capture().stream());
  const LogicalStream* last = nullptr;  // of what it needs, what ends last is there
  std::pair<int, int> end(0, -1);
  int end_elsewhere = 0;
  for (Position need : needs) {
    const int step = batch_.step_of(need);
    if (step < 0)
      continue;
    const std::pair reached(batch_.depth(step), step);  // whichever order they are named in
    if (reached > end) {
      end_elsewhere = std::exchange(end, reached).first;
      last = &gpu_.logical.of(need);
    } else {
      end_elsewhere = std::max(end_elsewhere, reached.first);
    }
  }
  using Rank = std::tuple<int, bool, int>;
  int chosen = 0;
  Rank least(std::numeric_limits<int>::max(), true, 0);
  for (int i = 0; i < gpu_.rules.width(); ++i) {
    const LogicalStream* const branch = slot_->captured[static_cast<std::size_t>(i)];
    const int depth = branch == nullptr ? 0 : batch_.depth(batch_.last_on(*branch));
    const bool continues = last != nullptr && branch == last;
    const Rank rank(std::max(depth, continues ? end_elsewhere : end.first), !continues, depth);
    if (rank < least) {
      least = rank;
      chosen = i;
    }
  }
  return gpu_.slots.branch(*slot_, chosen, batch_.capture().stream());
}

void Batches::join(TaskNode* task, Batch::Step& step, FailureRef failure) {
  gpu_.rules.note_task(*task);
  const bool first = batch_.empty();
  const Position position = step.logical->issue(*task);
  step.sequence = position.sequence();
  step.body = std::move(task->body);
  step.failed = failure != nullptr;
  batch_.end_step();
  if (task->traced) [[unlikely]]
    traced_.add(*task);
  if (gpu_.policy.reports().concerns_issue()) [[unlikely]]
    gpu_.policy.reports().follow(*task, position, failure);
  gpu_.core.finish(task, std::move(failure), true, position);
  if (batch_.empty()) [[unlikely]]  // for lack of memory it had to be launched at once
    return;
  open_steps_.store(++steps_captured_, std::memory_order_relaxed);
  if (gpu_.rules.is_full(batch_)) {
    gpu_.rules.note_full();
    launch();
  } else if (first) {
    gpu_.policy.wake_poller();
  }
}

// Whether the task left the capture intact: asked for tasks of whose name that is not known, and when something failed.
bool Batches::is_intact(const char* name, bool failed) noexcept {
  if (!failed && !batch_.branches() && gpu_.rules.is_harmless(name))
    return true;
  const bool intact = batch_.intact();
  if (intact)
    gpu_.rules.note_harmless(name);
  else
    gpu_.rules.note_spoilt(name);
  return intact;
}

void Batches::launch() noexcept {
  if (batch_.empty())
    return;
  open_steps_.store(0, std::memory_order_relaxed);  // from now on it waits for nobody
  if (gpu_.bodies.in_body())
    gpu_.bodies.keep_error();
  try {
    const cuda::DeviceScope on(gpu_.device.index);
    const GraphHandle graph = batch_.close();
    if (graph.get() == nullptr)
      return launch_one_by_one();
    gpu_.slots.order(*slot_, batch_.outside());
    GpuTrace::Span* span = nullptr;
    if (!traced_.empty()) [[unlikely]]
      span = gpu_.policy.trace().before_batch(gpu_.slots.traced(*slot_), std::exchange(traced_, TracedBatch()));
    launch_graph(graph);
    if (span != nullptr) [[unlikely]]
      gpu_.policy.trace().after_body(gpu_.slots.traced(*slot_), *span);
    mark(*slot_);
    gpu_.counts.batches.fetch_add(1, std::memory_order_relaxed);
    gpu_.counts.batched.fetch_add(static_cast<std::uint64_t>(batch_.size()), std::memory_order_relaxed);
    batch_.clear();
    gpu_.direct.watch_backlog(*slot_);
  } catch (...) {
    launch_one_by_one();
  }
}

void Batches::launch_graph(const GraphHandle& graph) {
  const GraphShape shape = shape_of(batch_.structure(), graph.get());
  if (shape.nodes == 0)
    return;
  const ExecutableCache::Lease executable = gpu_.executables.take(
      shape, graph.get(), {.stream = slot_->stream.get(), .flags = cudaGraphInstantiateFlagUseNodePriority});
  gpu_.rules.learn(executable.found());
  if (executable.found() != ExecutableCache::Found::updated)
    gpu_.counts.graphs_made.fetch_add(1, std::memory_order_relaxed);
  cuda_check(cudaGraphLaunch(executable.get(), slot_->stream->native()), "cudaGraphLaunch");
}

void Batches::mark(StreamSlot& slot) noexcept {
  for (const Batch::Step& step : batch_.steps())
    slot.stream->learn(*step.logical, step.sequence);
  Milestone* const milestone = gpu_.slots.record(slot);
  gpu_.rules.note_end(milestone);
  for (int i = 0; i < batch_.size(); ++i) {
    const Batch::Step& step = batch_.steps()[static_cast<std::size_t>(i)];
    if (batch_.last_on(*step.logical) == i)
      gpu_.slots.mark(slot, *step.logical, step.sequence, milestone);
  }
  if (std::exchange(slot.unmarked, 0) > 0)
    gpu_.slots.mark(slot, *slot.logical, slot.logical->issued(), milestone);
}

// While tasks are still being added the batch is left to grow.
bool Batches::is_stale(bool& open) noexcept {
  const std::uint64_t steps = open_steps_.load(std::memory_order_relaxed);
  open = steps != 0 && !test_faults().keep_batches_open.load(std::memory_order_relaxed);
  if (!open)
    return false;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  if (std::exchange(seen_steps_, steps) != steps)
    seen_at_ = now / std::chrono::nanoseconds(1);
  return now / std::chrono::nanoseconds(1) - seen_at_ > LaunchRules::k_stale;
}

}  // namespace sluice::detail
