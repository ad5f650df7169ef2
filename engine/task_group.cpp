// Groups of tasks: who belongs to which, waiting for all of them. How many run at a time: group_limit.cpp.
#include <algorithm>
#include <atomic>
#include <bit>
#include <new>
#include <string>
#include <utility>

#include <sluice/engine/detail/completion_control.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/group_hold.h>

namespace sluice {

namespace detail {

namespace {

// Of the one that stands for many nobody knows which was told.
bool is_told(const FailureRef& failure) noexcept {
  return failure != no_memory_failure() && failure->record->reported.load();
}

}  // namespace

bool asked_to_stop(const TaskExtras& extras) noexcept {
  return extras.stop.stop_requested() || (extras.group != nullptr && extras.group->stop_requested());
}

GroupState::GroupState(Core& core, int limit)
    : core_(core), var_(core.new_var({})), limit_(limit), parent_(of_this_thread(core)), era_(core.era()) {
  if (parent_ == nullptr)
    return;
  parent_->retain();
  of_parent_.emplace(parent_->stop_.get_token(), Stops{this});
}

GroupState::~GroupState() {
  of_parent_.reset();
  if (parent_ != nullptr)
    parent_->release();
}

// A scope counts for the body that made it, not for one that runs on top of that while it waits.
GroupState* GroupState::of_this_thread(const Core& core) noexcept {
  const ThisThread& here = this_thread();
  for (const GroupScope* scope = here.group_scope; scope != nullptr && scope->task_ == here.task;
       scope = scope->before_) {
    if (&scope->group_->core_ == &core)
      return scope->group_;
  }
  GroupState* const group = here.task == nullptr ? nullptr : here.task->group();
  return group != nullptr && &group->core_ == &core ? group : nullptr;
}

// -- Members come and go --

// With the mutex held, the first of them comes: from now on the Var is taken.
void GroupState::open(GroupState* parent) {
  TaskNode* const node = core_.make_bodiless(awaited(), TaskKind::probe, "group");
  try {
    TaskExtras& extras = node->need_extras();
    end_ = new CompletionControl(node);
    extras.completion.store(end_, std::memory_order_release);
    if (parent != nullptr)
      parent->enter(*node);
  } catch (...) {
    if (CompletionControl* unused = std::exchange(end_, nullptr))
      unused->drop();
    Core::discard(node);
    Core::drop(node, TaskNode::k_handle);
    throw;
  }
  holder_.store(node, std::memory_order_release);
  core_.push(node);
  Core::drop(node, TaskNode::k_handle);
}

void GroupState::enter(TaskNode& task) {
  if (const std::uint8_t era = core_.era(); era_.load(std::memory_order_relaxed) != era) [[unlikely]] {
    require<Forked>(empty(), [&] {
      return message("push: task \"", task.name, "\" is for a group whose members were under way at a fork");
    });
    era_.store(era, std::memory_order_relaxed);
  }
  TaskExtras& extras = task.need_extras();
  if (task.device.is_gpu())
    prepare_for_position();
  std::int64_t live = live_.load(std::memory_order_relaxed);
  while (live > 0 && !live_.compare_exchange_weak(live, live + 1, std::memory_order_acq_rel)) {
  }
  if (live == 0) {
    const Hold hold(*this);
    if (live_.load(std::memory_order_relaxed) == 0)
      open(parent_);
    live_.fetch_add(1, std::memory_order_acq_rel);
  }
  retain();
  extras.group = this;
}

void GroupState::leave() noexcept {
  std::int64_t live = live_.load(std::memory_order_relaxed);
  while (live > 1 && !live_.compare_exchange_weak(live, live - 1, std::memory_order_acq_rel)) {
  }
  if (live <= 1) {
    CompletionControl* end = nullptr;
    {
      const Hold hold(*this);
      if (live_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
        holder_.store(nullptr, std::memory_order_release);
        end = std::exchange(end_, nullptr);
        young_count_ = 0;
      }
    }
    if (end != nullptr)
      end->holder_ended();
  }
}

void GroupState::note(const FailureRef& failure) noexcept {
  for (GroupState* group = this; group != nullptr; group = group->parent_) {
    const Hold hold(*group);
    FailureRef& first = group->first_;
    if (first == nullptr || is_told(first) || failure->record->push_number < first->record->push_number)
      first = failure;
  }
}

// For the note that a GPU member has been issued: it must not fail.
void GroupState::prepare_for_position() {
  constexpr std::size_t k_most = 1024;  // streams
  const InLists in_lists(core_);
  for (GroupState* group = this; group != nullptr; group = group->parent_) {
    VarCore* const var = group->var_.core();
    const std::lock_guard hold(var->lock);
    if (group->gpu_members_ < k_most)
      var->read_at.reserve(std::bit_ceil(++group->gpu_members_));
  }
}

void GroupState::note(Position position) noexcept {
  for (GroupState* group = this; group != nullptr; group = group->parent_) {
    const InLists in_lists(core_);
    core_.note_reader(*group->var_.core(), position);
    const Hold hold(*group);
    if (group->issued_.size() >= k_most_positions)
      group->forget_passed();
    try {
      group->issued_.push_back(position);
    } catch (const std::bad_alloc&) {  // if it fails late, wait_all() tells
    }
  }
}

// Those that have failed count as first failure; what is on its way is kept.
void GroupState::forget_passed() {
  if (core_.gpu() == nullptr)  // in a forked child: they are the parent's
    return issued_.clear();
  std::erase_if(issued_, [this](Position position) {
    if (!core_.gpu()->passed(position))
      return false;
    const FailureRef failure = core_.late().none() ? nullptr : core_.late().of_task(position);
    if (failure != nullptr && (first_ == nullptr || is_told(first_)))
      first_ = failure;
    return true;
  });
}

// -- Waiting --

void GroupState::refuse_member(const char* what) const {
  const ThisThread& here = this_thread();
  if (here.task == nullptr || here.core != &core_)
    return;
  for (const GroupState* group = here.task->group(); group != nullptr; group = group->parent_) {
    require<Deadlock>(group != this, [&] {
      return message(what, ": task \"", here.task->name, "\" is in the group that it waits for");
    });
  }
}

void GroupState::wait() {
  refuse_while_recording("wait");
  refuse_in_gpu_body("wait");
  refuse_member("wait");
  struct Kept {
    GroupState& group;
    ~Kept() { group.release(); }
  } const kept{*this};  // the TaskGroup may be dropped meanwhile
  retain();
  core_.wait_group(*this);
  rethrow_first();
}

void GroupState::rethrow_first() {
  FailureRef first;
  {
    const Hold hold(*this);
    if (!issued_.empty())
      forget_passed();
    first = std::exchange(first_, nullptr);
  }
  if (first != nullptr && !is_told(first))
    rethrow(first);
}

void GroupState::note_young(std::uint64_t tag, bool try_last) noexcept {
  const Hold hold(*this);
  if (young_count_ == young_.size())
    return;
  if (try_last)
    std::move_backward(young_.begin(), young_.begin() + young_count_, young_.begin() + young_count_ + 1);
  young_[try_last ? 0 : young_count_] = tag;
  ++young_count_;
}

TaskNode* GroupState::keep_youngest(bool (*keep)(TaskNode*, std::uint32_t), std::uint32_t& state) noexcept {
  const Hold hold(*this);
  while (young_count_ > 0) {
    TaskNode* const task = Core::task_of(young_[--young_count_], state);
    if (task != nullptr && keep(task, state))
      return task;
  }
  return nullptr;
}

}  // namespace detail

TaskGroup::TaskGroup(Engine& engine, const TaskGroupOptions& options) {
  require(options.limit >= 0, [&] { return message("TaskGroup: limit = ", options.limit, " is negative"); });
  state_ = new detail::GroupState(detail::EngineAccess::core(engine), options.limit);
}
TaskGroup::~TaskGroup() {
  state_->release();
}

Engine& TaskGroup::engine() const {
  Engine* const engine = state_->core().facade();
  require<EngineStopped>(engine != nullptr, [] { return std::string("push: the group's engine is gone"); });
  return *engine;
}

void TaskGroup::wait() {
  state_->wait();
}
bool TaskGroup::done() const noexcept {
  return state_->empty();
}
void TaskGroup::cancel() {
  state_->stops().request_stop();
}
std::stop_token TaskGroup::stop_token() const {
  return state_->stops().get_token();
}

GroupScope::GroupScope(const TaskGroup& group) noexcept
    : group_(group.state_),
      task_(detail::this_thread().task),
      before_(std::exchange(detail::this_thread().group_scope, this)) {}
GroupScope::~GroupScope() {
  detail::this_thread().group_scope = before_;
}

GroupWait::GroupWait(const TaskGroup& group) : group_(group.state_), wait_(group.state_->awaited()) {
  group_->refuse_member("co_await");
  group_->retain();
}
GroupWait::~GroupWait() {
  group_->release();
}
void GroupWait::await_resume() const {
  wait_.await_resume();
  group_->rethrow_first();
}

}  // namespace sluice
