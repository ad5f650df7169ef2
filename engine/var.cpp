#include <sluice/engine/detail/core.h>
#include <sluice/engine/var.h>

namespace sluice {

std::uint64_t Var::id() const noexcept {
  return core_->id;
}
std::uint64_t Var::version() const noexcept {
  return core_->version.load(std::memory_order_acquire);
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

VarCore* Core::new_var(const VarOptions& options) {
  VarCore* var = NodePool<VarCore, &VarCore::next_free>::take();
  retain();
  const std::lock_guard hold(var->lock);
  var->orphan = false;
  var->version.store(0, std::memory_order_relaxed);
  var->handles.store(1, std::memory_order_relaxed);
  var->id = next_var_id_.fetch_add(1, std::memory_order_relaxed);
  var->core = this;
  var->home = options.home;
  var->on_retire = options.on_retire;
  if (options.pending != nullptr)
    var->read_at = *options.pending;
  return var;
}

void Core::release_var(VarCore* var) noexcept {
  int handles = var->handles.load(std::memory_order_relaxed);
  while (handles > 1) {
    if (var->handles.compare_exchange_weak(handles, handles - 1, std::memory_order_acq_rel))
      return;
  }
  // Perhaps the last handle: decided under the lock, so that exactly one of us and a finishing task retires the Var.
  var->lock.lock();
  if (var->handles.fetch_sub(1, std::memory_order_acq_rel) != 1) {
    var->lock.unlock();
    return;
  }
  var->orphan = true;
  const bool idle = var->mode == VarMode::idle;
  if (idle)
    var->orphan = false;
  var->lock.unlock();
  if (idle)
    retire(var);
}

void Core::set_idle(VarCore* var) {
  var->mode = VarMode::idle;
  const bool last = std::exchange(var->orphan, false);
  var->lock.unlock();
  if (last)
    retire(var);
}

void Core::retire(VarCore* var) noexcept {
  PositionSet pending = var->read_at;
  pending.add(var->written_at);
  RetireHook* hook = std::exchange(var->on_retire, nullptr);
  var->poison = {};
  var->written_at = {};
  var->read_at.clear();
  if (hook != nullptr)
    hook->on_retire(pending);
  NodePool<VarCore, &VarCore::next_free>::give(var);
  release();
}

}  // namespace detail
}  // namespace sluice
