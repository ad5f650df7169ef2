// How an engine holds back those who push faster than it runs.
#include <chrono>

#include <sluice/engine/detail/core.h>

namespace sluice::detail {

namespace {

constexpr std::uint64_t k_cached_tasks = 2048;  // half of a usual second-level cache
constexpr int k_pace_looks = 16;                // some 10 to 30 us in all
constexpr auto k_look_again = std::chrono::milliseconds(1);
constexpr auto k_longest_rest = std::chrono::seconds(10);  // others may take as much as goes, without end

}  // namespace

/// What a push rests for: tasks alive, or a memory in flight.
struct Core::Load {
  Restraint& restraint;
  std::uint64_t (*amount)(const Core& core, const void* of);
  std::uint64_t (*progress)(const Core& core, const void* of);
  const void* of = nullptr;
};

// Short tasks are pushed at the speed at which they run: a backlog that leaves the cache costs more than it brings.
void Core::keep_pace() {
  if (!cpu_->short_tasks())
    return;
  for (int looks = 0; looks < k_pace_looks && live() > k_cached_tasks; ++looks) {
    for (int i = 0; i < 32; ++i)
      pause_briefly();
  }
}

// Only threads outside tasks rest, and outside loops that they help in: a body that rested would hold what the others
// wait for.
void Core::hold_back(bool counted) {
  const ThisThread& here = this_thread();
  if (here.task != nullptr || here.draining || here.core != nullptr)
    return;
  if (counted && options_.max_live_tasks != 0) {
    const std::uint64_t now = live();
    if (now > k_cached_tasks)
      keep_pace();
    if (now >= options_.max_live_tasks && now >= live_restraint_.allowed(left())) {
      rest(
          {live_restraint_,
           [](const Core& core, const void*) { return core.live(); },
           [](const Core& core, const void*) { return core.left(); }});
    }
  }
  if (!in_flight_.is_crowded())
    return;
  for (int i = 0; i < in_flight_.memories(); ++i) {
    InFlight::Memory& memory = in_flight_.at(i);
    if (!memory.is_too_full() || (i == 0 && workers_lack_tasks()))
      continue;
    in_flight_.count_rest();
    using Amount = std::uint64_t (*)(const Core&, const void*);
    const Amount held = [](const Core&, const void* of) { return static_cast<const InFlight::Memory*>(of)->held(); };
    const Amount held_at_work = [](const Core& core, const void* of) {  // a worker without a task frees nothing
      return core.workers_lack_tasks() ? 0 : static_cast<const InFlight::Memory*>(of)->held();
    };
    rest(
        {memory.restraint,
         i == 0 ? held_at_work : held,
         [](const Core&, const void* of) { return static_cast<const InFlight::Memory*>(of)->progress(); },
         &memory});
  }
}

bool Core::workers_lack_tasks() const noexcept {
  return live() < static_cast<std::uint64_t>(cpu_->workers());
}

// Whether resting is of use. A body that computes uses a core, or waits for one on a crowded machine.
void Core::judge(Restraint& restraint, std::uint64_t progress) {
  Activity now{
      .at = std::chrono::steady_clock::now(), .retired = left(), .fenced = gpu() != nullptr && gpu()->has_fences()};
  const pid_t self = Runner::here().thread;  // which rests, though it may run bodies otherwise
  cpu_->visit_runners([&](Runner runner) {
    if (runner.thread != self)
      now.cpu_time += runner.cpu_time();
  });
  restraint.look(now, progress, [&] {
    bool any = false;
    cpu_->visit_runners([&](Runner runner) { any = any || (runner.thread != self && runner.is_runnable()); });
    return any || Runner::any_runnable_of(cpu_->thread_name());  // the threads of a team, or those that a body made
  });
}

void Core::rest(const Load& load) {
  const auto done = [&] { return load.amount(*this, load.of) <= load.restraint.enough() || stopped_.load() != 0; };
  cpu_->before_wait();
  if (gpu() != nullptr)
    gpu()->flush();
  const auto end = std::chrono::steady_clock::now() + k_longest_rest;
  const DrainWaiter waiter(*this);
  while (!done() && std::chrono::steady_clock::now() < end) {
    while (cpu_->help(32) > 0) {
      if (done())
        return;
    }
    cpu_->while_waiting();
    std::unique_lock hold(drained_mutex_);
    if (drained_.wait_for(hold, k_look_again, done))
      return;
    const std::uint64_t progress = load.progress(*this, load.of);
    if (load.restraint.is_due(std::chrono::steady_clock::now(), progress))
      judge(load.restraint, progress);
    const std::uint64_t allowed = load.restraint.allowed(progress);
    if (allowed > load.restraint.limit() && load.amount(*this, load.of) <= allowed)
      return;  // perhaps this thread holds what they wait for
  }
}

}  // namespace sluice::detail
