// Many GPU tasks as one CUDA graph: which belong together, when they are launched, and what happens if they cannot be.
#include <algorithm>
#include <utility>

#include <sluice/engine/cuda/issuer.h>
#include <sluice/engine/cuda/mixed.h>
#include <sluice/engine/cuda/policy_stream.h>
#include <sluice/engine/detail/core.h>

namespace sluice::detail {

using cuda::cuda_check;

namespace {

constexpr int k_direct_first = 4;  // tasks after a pause of the host: the GPU has nothing to do yet
constexpr int k_sizes[] = {5, 10, 20, 64};
constexpr int k_crossing = 2;    // tasks that could begin while one waits for another lane
constexpr int k_breakable = 32;  // from here on a batch ends where the program seems to begin anew

struct CaptureAbandoned {};

}  // namespace

void Issuer::abandon_capture() {
  abandon_ = true;
  throw CaptureAbandoned();
}

void Issuer::reset_pace() noexcept {
  in_a_row_ = 0;
  level_ = 0;
}

bool Issuer::belongs_in_batch(const TaskNode& task) {
  if (!options_.batches || !task.capturable || task.legacy_stream || class_of(task) != normal)
    return false;
  if (batches_off_ > 0) {
    --batches_off_;
    return false;
  }
  if (batch_.empty() && ++in_a_row_ <= k_direct_first)
    return false;
  return uncapturable_.empty() || !uncapturable_.contains(task.name);
}

// A batch waits as a whole, so it ends before a task that waits for something that may take long.
bool Issuer::waits_for_others(const PositionSet& needs) const {
  return std::any_of(needs.begin(), needs.end(), [this](Position need) {
    const Lane& lane = lanes_.at(need.stream());
    if (lane.device() == device_ && lane.kind() == StreamKind::compute)
      return false;
    const bool known = std::any_of(compute_.begin(), compute_.end(), [&](const Route& route) {
      return route.stream->knows(lane, need.sequence());
    });
    return !known && std::find(batch_.outside().begin(), batch_.outside().end(), need) == batch_.outside().end();
  });
}

// Where the program repeats itself, batches should repeat too: a large one ends where its branches join, and behind
// certain pairs of different tasks, wherever it began.
bool Issuer::is_full() const noexcept {
  const int factor = level_ + 1 == static_cast<int>(std::size(k_sizes)) ? growth() : 1;
  if (batch_.size() >= factor * k_sizes[level_])
    return true;
  if (batch_.size() < factor * k_breakable)
    return false;
  const std::uint64_t pair = mixed(before_last_, last_);
  const int rarity = batch_.is_put_off() ? 6 : 4;  // names make fewer different pairs than what tasks hold
  return batch_.is_joined() || (last_ != before_last_ && pair >> (64 - rarity) == 0);
}

// What is put off costs little, so that there may be more of it before the GPU has run out of work.
int Issuer::growth() const noexcept {
  return batch_.is_put_off() ? Batch::k_most / k_sizes[std::size(k_sizes) - 1] : 1;
}

bool Issuer::prepare_batch(const PositionSet& needs, bool capture) noexcept try {
  if (!batch_.empty())
    return true;
  if (capture_stream_.get() == nullptr) {
    cudaStream_t stream = nullptr;
    int urgency = 0;  // which the nodes of the graph have from here
    cuda_check(cudaStreamGetPriority(compute_[0].stream->native(), &urgency), "cudaStreamGetPriority");
    cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, urgency), "cudaStreamCreateWithPriority");
    capture_stream_ = cuda::StreamHandle(stream);
  }
  batch_route_ = &choose_batch_route(needs);
  if (!capture) {
    batch_.abandon();  // bodies that enqueued nothing may have left it open
    batch_.clear();
    width_ = repeat_width();  // always the same, or the same tasks would not be the same batch
  } else if (!batch_.is_open()) {
    width_ = choose_width();
    batch_.open(capture_stream_.get(), width_ > 1);
  }
  return true;
} catch (...) {
  return false;
}

void Issuer::issue_in_batch(TaskNode* task, const PositionSet& needs) {
  const bool elsewhere = batch_.size() >= growth() * k_breakable && !batch_.continues(needs);
  if (!batch_.empty() && (elsewhere || waits_for_others(needs)))
    launch_batch();
  const bool rests = put_off_rest_ > 0 && put_off_rest_-- > 0;
  const auto describe = [&]() -> std::uint64_t {
    if (!rests)
      return batch_.describe(task->body);
    batch_.lose_script();
    return 0;
  };
  std::uint64_t description = describe();
  batch_.make_room();
  const bool captures = !batch_.empty() && !batch_.is_put_off();
  const bool puts_off = description != 0 && repeats_.knows(description) && !captures;
  if (batch_.is_put_off() && !puts_off) {
    if (!capture_put_off())
      return issue_direct(task, needs);
    description = describe();
  }
  if (FailureRef failure = failed_meanwhile(*task))
    return refuse(task, std::move(failure), false);
  if (!prepare_batch(needs, !puts_off))
    return issue_direct(task, needs);
  if (!puts_off)
    return issue_captured(task, needs, description);
  Batch::Step step = step_of(*task, needs);
  batch_.put_off_step(*step.lane, needs);
  join_batch(task, std::move(step), {}, description);
}

// All but its body, while nothing is lost yet if there is no memory.
Batch::Step Issuer::step_of(const TaskNode& task, const PositionSet& needs) {
  return {
      .body = {},
      .name = task.name,
      .site = task.site(),
      .push_number = task.push_number,
      .lane = &choose_lane(needs),
      .needs = needs,
      .uses = core_.late().uses_of(task),
      .runs_anyway = task.on_failed_input == OnFailedInput::run};
}

void Issuer::issue_captured(TaskNode* task, const PositionSet& needs, std::uint64_t description) {
  Batch::Step step = step_of(*task, needs);
  Lane& lane = *step.lane;
  FailureRef failure;
  if (!run_body(
          {.route = batch_route_, .lane = &lane, .needs = &needs, .task = task, .name = task->name, .captured = true},
          failure))
    return;
  if (abandon_ || !is_intact(task->name, failure != nullptr)) {
    launch_one_by_one();
    void_place(lane, *task);
    return issue_direct(task, needs);
  }
  if (failure == nullptr && batch_.says_all())
    repeats_.learn(description);
  join_batch(task, std::move(step), std::move(failure), 0);
}

// `content`: what the task says that it enqueues, if that is known to come again.
void Issuer::join_batch(TaskNode* task, Batch::Step&& step, FailureRef failure, std::uint64_t content) {
  before_last_ = std::exchange(last_, mixed(mixed(task->access_count, task->name), content));
  const bool first = batch_.empty();
  const Position position = step.lane->issue(*task);
  step.sequence = position.sequence();
  step.body = std::move(task->body);
  step.failed = failure != nullptr;
  batch_.end_step(std::move(step));
  if (task->traced) [[unlikely]]
    traced_.add(*task);
  core_.finish(task, std::move(failure), true, position);
  captured_.store(++steps_captured_, std::memory_order_relaxed);
  if (is_full()) {
    level_ = std::min(level_ + 1, static_cast<int>(std::size(k_sizes)) - 1);
    launch_batch();
  } else if (first) {
    policy_.wake_attendant();
  }
}

// Whether the task left the capture intact: asked for tasks of whose name that is not known, and when something failed.
bool Issuer::is_intact(const char* name, bool failed) noexcept {
  const auto place = reinterpret_cast<std::uintptr_t>(name) * 0x9e3779b97f4a7c15u >> 58;
  if (!failed && !batch_.branches() && harmless_[place] == name)
    return true;
  if (batch_.intact()) {
    harmless_[place] = name;
    return true;
  }
  if (harmless_[place] != name)  // else it was one before it
    uncapturable_.insert(name);
  return false;
}

// The body that was not captured after all may have given memory back with the place that it was to have.
void Issuer::void_place(Lane& lane, const TaskNode& task) noexcept {
  const Position position = lane.issue(task);
  batch_route_->stream->learn(lane, position.sequence());
  mark(*batch_route_, lane, position.sequence(), record(*batch_route_));
}

void Issuer::mark_batch(Route& route) noexcept {
  for (const Batch::Step& step : batch_.steps())
    route.stream->learn(*step.lane, step.sequence);
  Milestone* const milestone = record(route);
  ends_[0] = ends_[1];
  ends_[1] = milestone == nullptr ? BatchEnd() : BatchEnd{milestone, milestone->number};
  for (int i = 0; i < batch_.size(); ++i) {
    const Batch::Step& step = batch_.step(i);
    if (batch_.last_on(*step.lane) == i)
      mark(route, *step.lane, step.sequence, milestone);
  }
  if (std::exchange(route.unmarked, 0) > 0)
    mark(route, *route.lane, route.lane->issued(), milestone);
}

void Issuer::launch_batch() noexcept {
  if (batch_.empty())
    return;
  captured_.store(0, std::memory_order_relaxed);  // from now on it waits for nobody
  if (call_.lane != nullptr)
    keep_error();
  try {
    const cuda::DeviceScope on(device_.index);
    cudaGraphExec_t executable = batch_.is_put_off() ? repeats_.find(batch_.script()) : nullptr;
    const bool repeated = executable != nullptr;
    if (batch_.is_put_off() && !repeated && !capture_put_off())
      return;
    const GraphHandle graph = repeated ? GraphHandle() : batch_.close();
    if (!repeated && graph.get() == nullptr)
      return launch_one_by_one();
    Route& route = *batch_route_;
    order(route, batch_.outside());
    GpuTrace::Span* const span = policy_.trace().before_batch(traced_on(route), std::move(traced_));
    traced_.clear();
    if (repeated)
      learn_repeated(true);
    else
      executable = executable_of(graph, route);
    if (executable != nullptr)
      cuda_check(cudaGraphLaunch(executable, route.stream->native()), "cudaGraphLaunch");
    policy_.trace().after(traced_on(route), span);
    mark_batch(route);
    counts_.batches.fetch_add(1, std::memory_order_relaxed);
    counts_.batched.fetch_add(static_cast<std::uint64_t>(batch_.size()), std::memory_order_relaxed);
    counts_.repeated.fetch_add(repeated ? 1 : 0, std::memory_order_relaxed);
    counts_.graphs_made.store(graphs_.made() + repeats_.made(), std::memory_order_relaxed);
    batch_.clear();
    look_behind(route);
  } catch (...) {
    launch_one_by_one();
  }
}

// The capture is of no use: what it held is launched by itself, in the order and at the places that it has. Bodies may
// have waited for more than their tasks need, and given back memory which is safe only then.
void Issuer::launch_one_by_one() noexcept {
  batch_.abandon();
  order_or_await(*batch_route_, batch_.outside());
  std::vector<Batch::Step> steps = batch_.take();
  launch_again(steps);
}

void Issuer::launch_again(std::span<Batch::Step> steps) noexcept {
  traced_.clear();
  harmless_ = {};  // one of those was not
  captured_.store(0, std::memory_order_relaxed);
  for (Batch::Step& step : steps)
    launch_again(step);
}

// Where the GPU cannot be made to wait, the host does: what has a place comes after what it needs. A device of which
// that cannot be learnt again and again is taken for lost, as the need's already is if it is another one.
void Issuer::await(Position need) noexcept {
  Lane& lane = lanes_.at(need.stream());
  FailureRef failure;
  for (int tries = 0; tries < k_tries && lane.done() < need.sequence() && !lane.issuer().lost(); ++tries) {
    try {
      policy_.synchronize(lane, need.sequence());
      return;
    } catch (...) {
      failure = caught(record_named("a wait", {}, 0));
    }
  }
  if (failure != nullptr && !lost() && !lane.issuer().lost())
    lose(failure);
}

void Issuer::order_or_await(Route& route, const PositionSet& needs) noexcept {
  try {
    order(route, needs);
  } catch (...) {
    const FailureRef seen = caught(record_named("a batch", {}, 0));  // which may be that the device is lost
    mark_all();
    std::for_each(needs.begin(), needs.end(), [this](Position need) { await(need); });
  }
}

// The task has finished, and its Vars say that all is well. Where nobody can be told otherwise, nothing of the device
// is to be believed.
void Issuer::fail_late(Batch::Step& step, const FailureRef& failure, bool ran) noexcept try {
  step.failed = true;
  core_.fail_late({step.lane->number(), step.sequence}, failure, ran, step.uses);
} catch (...) {
  lose(failure);
}

// True if what the task reads has failed since.
bool Issuer::skip_late(Batch::Step& step) noexcept {
  const FailureRef failure = step.runs_anyway ? nullptr : core_.late().of_inputs(step.uses);
  if (failure != nullptr)
    fail_late(step, failure, false);
  return failure != nullptr;
}

void Issuer::launch_again(Batch::Step& step) noexcept {
  Route* route = compute_.data();
  while (route->stream->native() != step.lane->direct.enqueued_on())
    ++route;
  step.lane->direct.take_place({step.lane->number(), step.sequence});
  const Call before = std::exchange(
      call_, {.route = route, .lane = step.lane, .needs = &step.needs, .name = step.name, .touched = true});
  PositionSet previous;
  previous.add(Position(step.lane->number(), step.lane->launched()));
  order_or_await(*route, previous);
  order_or_await(*route, step.needs);
  try {
    if (!step.failed && !lost() && !skip_late(step))
      call_body(call_, step.body);
    counts_.reissued.fetch_add(1, std::memory_order_relaxed);
  } catch (...) {
    fail_late(step, caught(record_named(step.name, step.site, step.push_number)), true);
  }
  call_ = before;
  step.lane->direct.take_place({});
  step.body.reset();
  route->stream->learn(*step.lane, step.sequence);
  mark(*route, *step.lane, step.sequence, record(*route));
}

}  // namespace sluice::detail
