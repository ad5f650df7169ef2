#include <algorithm>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/var_life.h>
#include <sluice/engine/var.h>

namespace sluice {

std::uint64_t Var::id() const noexcept {
  return core_->id;
}
std::uint64_t Var::version() const noexcept {
  const std::uint64_t counted = core_->version.load(std::memory_order_acquire) % detail::VarCore::k_failed_write;
  detail::LateFailures& late = core_->core->late();
  return late.none() ? counted : counted - late.void_versions(core_->id);
}
Device Var::home() const noexcept {
  return core_->home;
}

Engine& Var::engine() const {
  require(core_ != nullptr, [] { return std::string("engine: an empty Var belongs to no engine"); });
  Engine* engine = core_->core->facade();
  require<EngineStopped>(engine != nullptr, [] { return std::string("engine: the engine of this Var is gone"); });
  return *engine;
}

namespace detail {

void retain(VarCore* var) noexcept {
  var->handles.fetch_add(1, std::memory_order_relaxed);
}
void release(VarCore* var) noexcept {
  var->core->release_var(var);
}

namespace {

using Life = VarLife<Core, VarCore, AccessNode>;
using VarPool = NodePool<VarCore, &VarCore::next_free>;
using Gate = ReadGate<std::atomic<std::uint64_t>>;

}  // namespace

VarCore* Core::new_var(const VarOptions& options) {
  if (options.bytes != 0 && !in_flight_.knows(options.home)) [[unlikely]] {
    GpuPolicy* const known = need_gpu();  // which the first array comes before
    in_flight_.know_gpu(options.home, known == nullptr ? 0 : known->memory_size(options.home));
  }
  VarCore* var = VarPool::take();
  retain();
  const std::lock_guard hold(var->lock);  // a late reader of the Var that was here before may still look
  var->orphan = false;
  var->version.store(0, std::memory_order_relaxed);
  var->handles.store(1, std::memory_order_relaxed);
  var->id = next_var_id_.fetch_add(1, std::memory_order_relaxed);
  var->order = static_cast<std::uint32_t>(var->id);
  var->core = this;
  var->era = era_;
  var->home = options.home;
  var->on_retire = options.on_retire;
  var->commuting = nullptr;
  var->kibibytes = static_cast<std::uint32_t>(std::min(options.bytes >> 10, std::uint64_t{~std::uint32_t{0}}));
  var->frozen.store(false, std::memory_order_relaxed);
  var->reads_in_a_row = 0;
  var->urgency.store(Priority::background, std::memory_order_relaxed);
  var->urgers.store(0, std::memory_order_relaxed);
  if (options.pending != nullptr)
    var->read_at = *options.pending;
  return var;
}

void Core::release_var(VarCore* var) noexcept {
  if (era_ != 0) [[unlikely]]
    renew(var);
  Life::release(*this, var);
}

// Before the Var retires: as long as its lock is held the engine that made it is there.
void Core::idle(VarCore* var) {
  if (var->orphan && var->kibibytes != 0)
    var->core->count_in_flight(*var, -1);
  Life::idle(*this, var);
}

void Core::orphaned(VarCore* var) noexcept {
  if (var->kibibytes != 0)
    var->core->count_in_flight(*var, 1);
}

void Core::count_in_flight(const VarCore& var, int sign) noexcept {
  const ThisThread& here = this_thread();
  std::atomic<std::int64_t>* spare = here.owns_slot() ? &counts(here).spare_bytes : nullptr;
  in_flight_.change(var.home, sign * (std::int64_t{var.kibibytes} << 10), spare);
}

// A task and the low bits of its generation in one word.
std::uint64_t Core::tagged(const TaskNode* task) noexcept {
  const std::uint64_t generation = TaskNode::generation(task->state.load(std::memory_order_relaxed));
  return (generation << 48) | reinterpret_cast<std::uintptr_t>(task);
}

// Null if the task is over and its node another's by now.
TaskNode* Core::task_of(std::uint64_t tag, std::uint32_t& state) noexcept {
  auto* task = reinterpret_cast<TaskNode*>(tag & 0xffff'ffff'ffffull);
  if (task == nullptr)
    return nullptr;
  state = task->state.load(std::memory_order_acquire);
  return (TaskNode::generation(state) & 0xffff) == tag >> 48 ? task : nullptr;
}

void Core::came_in(VarCore* var, const AccessNode& access) noexcept {
  var->first_holder.store(tagged(access.task()), std::memory_order_relaxed);
}

void Core::joined(VarCore* var) {
  Life::joined(*this, var);
}

ReadGate<std::atomic<std::uint64_t>>* Core::new_gate() noexcept {
  try {
    return ::new (take_block(sizeof(Gate))) Gate;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

void Core::freeze(const Var& handle, bool frozen) {
  VarCore* var = handle.core();
  require(var != nullptr && var->core == this, [] {
    return std::string("freeze: an empty Var, or one of another engine");
  });
  if (era_ != 0) [[unlikely]]
    renew(var);
  const ThisThread& here = this_thread();
  enter_lists(here);  // a fork finds the lock free
  Life::freeze(*this, var, frozen);
  leave_lists(here);
}

void Core::retire(VarCore* var) noexcept {
  Core* const owner = var->core;  // not `this`, if a late reader of the Var that was here before found it
  RetireHook* hook = std::exchange(var->on_retire, nullptr);
  if (var->poison) [[unlikely]]
    var->poison = {};
  if (var->gate != nullptr)
    give_block(std::exchange(var->gate, nullptr), sizeof(Gate));
  if (var->read_at.empty() && !var->written_at) [[likely]] {
    if (hook != nullptr)
      hook->on_retire(var->read_at);
  } else {
    PositionSet pending = std::move(var->read_at);  // a copy would want memory
    pending.add(var->written_at);
    var->written_at = {};
    var->read_at.clear();
    if (hook != nullptr)
      hook->on_retire(pending);
  }
  VarPool::give(var);
  owner->release();
}

}  // namespace detail
}  // namespace sluice
