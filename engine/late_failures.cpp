// GPU tasks that fail after they have finished.
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/late_failures.h>

namespace sluice::detail {

LateFailures::Uses LateFailures::uses_of(const TaskNode& task) {
  Uses uses;
  for (const AccessNode& access : task.accesses())
    uses.push_back({access.var->id, writer_of(*access.var), access.mode()});
  return uses;
}

Position LateFailures::writer_of(const VarCore& var) {
  if (none()) [[likely]]
    return var.written_at;
  const std::lock_guard hold(mutex_);
  const Written* const written = find(var.written_at, var.id);
  return written != nullptr && written->handed_over ? Position() : var.written_at;
}

LateFailures::Written* LateFailures::find(Position at, std::uint64_t var) {
  const auto entry = entries_.find(key(at));
  if (entry == entries_.end())
    return nullptr;
  for (Written& written : entry->second.written) {
    if (written.var == var)
      return &written;
  }
  return nullptr;
}

// As where a task fails in time: what ran has lost all it writes; what did not has lost only what it makes anew.
void LateFailures::add(Position position, const FailureRef& failure, bool ran, const Uses& uses) {
  const std::lock_guard hold(mutex_);
  Entry entry{failure, {}};
  for (const Use& use : uses) {
    if (use.mode == AccessMode::read)
      continue;
    const bool out = use.mode == AccessMode::out;
    const Written* const before = out ? nullptr : find(use.written_at, use.var);
    const bool was_lost = before != nullptr && before->poison.lost();
    entry.written.push_back({use.var, was_lost ? before->poison : Poison(failure, ran || out)});
    ++void_versions_[use.var];
  }
  entries_.emplace(key(position), std::move(entry));
  order_.push_back(key(position));
  if (order_.size() > k_most)
    forget_oldest();
  none_.store(false, std::memory_order_relaxed);
}

void LateFailures::forget_oldest() {
  const auto oldest = entries_.find(order_.front());
  for (const Written& written : oldest->second.written) {
    const auto versions = void_versions_.find(written.var);
    if (--versions->second == 0)
      void_versions_.erase(versions);
  }
  entries_.erase(oldest);
  order_.pop_front();
}

FailureRef LateFailures::of_task(Position position) {
  const std::lock_guard hold(mutex_);
  const auto entry = entries_.find(key(position));
  return entry == entries_.end() ? nullptr : entry->second.failure;
}

FailureRef LateFailures::of_value(Position written_at, std::uint64_t var) {
  const std::lock_guard hold(mutex_);
  const Written* const written = find(written_at, var);
  return written != nullptr && written->poison.holds() ? written->poison.failure() : nullptr;
}

FailureRef LateFailures::of_inputs(const Uses& uses) {
  if (none())
    return nullptr;
  for (const Use& use : uses) {
    if (use.mode == AccessMode::out)
      continue;
    if (FailureRef failure = of_value(use.written_at, use.var))
      return failure;
  }
  return nullptr;
}

void LateFailures::hand_over(VarCore& var) {
  const std::lock_guard hold(mutex_);
  Written* const written = find(var.written_at, var.id);
  if (written == nullptr || std::exchange(written->handed_over, true))
    return;
  if (!var.poisoned())
    var.poison = written->poison;
}

std::uint64_t LateFailures::void_versions(std::uint64_t var) {
  const std::lock_guard hold(mutex_);
  const auto versions = void_versions_.find(var);
  return versions == void_versions_.end() ? 0 : versions->second;
}

// -- What the engine makes of it --

void Core::fail_late(Position position, const FailureRef& failure, bool ran, const LateFailures::Uses& uses) {
  late_.add(position, failure, ran, uses);
  const ThisThread& here = this_thread();
  (ran ? counts(here).failed : counts(here).skipped).add(here.owns_slot());
  if (ran)
    note_failure(failure);
}

FailureRef Core::failed_input(const TaskNode& task) {
  const bool none_late = late_.none();
  for (const AccessNode& access : task.accesses()) {
    const VarCore& var = *access.var;
    if ((!var.poison && none_late) || access.mode() == AccessMode::out) [[likely]]
      continue;
    if (FailureRef failure = failure_of(var))
      return failure;
  }
  return nullptr;
}

FailureRef Core::failure_of(const VarCore& var) {
  if (var.poisoned())
    return var.poison.failure();
  return late_.none() ? nullptr : late_.of_value(late_.writer_of(var), var.id);
}

}  // namespace sluice::detail
