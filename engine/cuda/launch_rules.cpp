#include <algorithm>
#include <new>
#include <utility>

#include <sluice/engine/cuda/batch.h>
#include <sluice/engine/cuda/launch_rules.h>
#include <sluice/engine/cuda/mixed.h>

namespace sluice::detail {

bool LaunchRules::may_batch(bool open, const char* name) {
  if (chaos_) [[unlikely]]
    return draw(4) != 0 && !uncapturable_.contains(name);
  if (!open && ++in_a_row_ <= k_direct_first)
    return false;
  return uncapturable_.empty() || !uncapturable_.contains(name);
}

void LaunchRules::note_task(const TaskNode& task) noexcept {
  before_last_ = std::exchange(last_, mixed(task.access_count, task.name));
}

bool LaunchRules::is_breakable(const Batch& batch) const noexcept {
  return batch.size() >= k_breakable;
}

bool LaunchRules::is_full(const Batch& batch) noexcept {
  if (chaos_) [[unlikely]]
    return batch.size() == Batch::k_most || draw(8) == 0;
  if (batch.size() >= k_sizes[static_cast<std::size_t>(level_)])
    return true;
  if (!is_breakable(batch))
    return false;
  return batch.is_joined() || (last_ != before_last_ && mixed(before_last_, last_) >> (64 - k_rarity) == 0);
}

void LaunchRules::note_full() noexcept {
  level_ = std::min(level_ + 1, static_cast<int>(k_sizes.size()) - 1);
}

int LaunchRules::choose_width() noexcept {
  if (chaos_) [[unlikely]]
    return width_ = 1 + draw(k_width);
  const bool narrow = narrow_ > 0;
  narrow_ -= narrow ? 1 : 0;
  width_ = !narrow && is_running(ends_[0]) ? k_width : 1;  // with what was launched before the last batch
  return width_;
}

// Once it is not, the driver is not asked again.
bool LaunchRules::is_running(BatchEnd& end) noexcept {
  if (end.milestone == nullptr)
    return false;
  const bool reused = end.milestone->number != end.number;
  const bool running = !reused && cudaEventQuery(end.milestone->event.get()) == cudaErrorNotReady;
  cudaGetLastError();
  if (!running)
    end = {};
  return running;
}

void LaunchRules::note_end(const Milestone* milestone) noexcept {
  ends_[0] = ends_[1];
  ends_[1] = milestone == nullptr ? BatchEnd() : BatchEnd{milestone, milestone->number};
}

// An executable that was made while the GPU was busy with the batch before it has cost nobody anything. Where there are
// branches, they are to blame for what is new.
void LaunchRules::learn(ExecutableCache::Found found) noexcept {
  const bool made = found != ExecutableCache::Found::updated;
  if (width_ == 1)
    return;
  if (!made)
    lost_shapes_ = std::max(0, lost_shapes_ - 1);
  else if (!last_runs())
    lost_shapes_ += k_price;
  if (lost_shapes_ < k_patience)
    return;
  lost_shapes_ = 0;
  narrow_ = narrow_for_;
  narrow_for_ = std::min(2 * narrow_for_, k_narrow_at_most);
}

void LaunchRules::note_spoilt(const char* name) noexcept try {
  if (!is_harmless(name))  // else it was one before it
    uncapturable_.insert(name);
} catch (const std::bad_alloc&) {  // it is tried again
}

}  // namespace sluice::detail
