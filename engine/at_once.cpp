// Short bodies that run where they are called, without a task: nobody could tell the difference, as what they read is
// there and what they make nobody knows yet. Whatever is not plain goes the way of a push.
#include <new>
#include <utility>

#include <sluice/engine/detail/clock.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/named_range.h>

namespace sluice::detail {

namespace {

using Protocol = VarProtocol<Core, VarCore, AccessNode>;

void make_read(AccessNode* at, VarCore* var) noexcept {
  (::new (static_cast<void*>(at)) AccessNode)->set(var, nullptr, AccessMode::read);
}

// By age, each once.
int sort_reads(std::span<VarCore* const> vars, AccessNode* reads) noexcept {
  if (vars.size() == 2 && vars[0] != vars[1]) [[likely]] {
    const bool turned = vars[1]->comes_before(*vars[0]);
    make_read(reads, vars[turned ? 1 : 0]);
    make_read(reads + 1, vars[turned ? 0 : 1]);
    return 2;
  }
  int count = 0;
  for (VarCore* const var : vars) {
    int at = count;
    while (at > 0 && reads[at - 1].var != var && var->comes_before(*reads[at - 1].var))
      --at;
    if (at > 0 && reads[at - 1].var == var)
      continue;
    make_read(reads + count, var);
    for (int i = count++; i > at; --i)
      std::swap(reads[i], reads[i - 1]);
  }
  return count;
}

}  // namespace

/// One call of EngineAccess::run_at_once().
class AtOnceRun {
 public:
  AtOnceRun(Core& core, const AtOnce& call) : core_(core), here_(this_thread()), call_(call) {}

  bool run(void* body, void (*call_body)(void* body, Queue queue)) {
    if (call_.reads.size() > AtOnce::k_most_reads || !is_plain() || !core_.cpu_->begin_at_once())
      return false;
    const auto shard = static_cast<unsigned>(here_.slot);
    const int count = sort_reads(call_.reads, reads_);
    core_.enter_lists(here_);  // to the end: whoever wants them at rest waits for a short body
    const bool entered = Protocol::try_read(core_, reads_, count, shard);
    const bool at_hand = entered && are_at_hand(count);
    const int epoch = core_.epoch_.load(std::memory_order_relaxed) & 1;
    const bool runs = at_hand && counts_in(epoch);
    if (runs)
      call(body, call_body);
    here_.draining = true;
    for (int i = 0; entered && i < count; ++i)
      Protocol::leave(core_, reads_[i], shard);
    core_.leave_lists(here_);
    if (here_.ready_head != nullptr) [[unlikely]]  // what waited behind the reads, as where a task ends
      Core::run_ready(here_);
    here_.draining = false;
    if (failure_ != nullptr) [[unlikely]]
      publish_failure();
    if (at_hand)
      core_.leave_epoch(epoch);
    core_.cpu_->end_at_once();
    return runs;
  }

 private:
  // A thread of the user's, outside bodies, with nothing to be noted of what it pushes.
  bool is_plain() const noexcept {
    // Summed up, as nearly always all of it holds.
    const bool inside = (here_.task != nullptr) | (here_.recording != nullptr) | (here_.group_scope != nullptr) |
                        (here_.gpu_body != nullptr) | here_.draining | here_.in_parallel;
    // A body computes as the thread that made the engine does.
    const bool same_mode = here_.mode.without_body() == core_.thread_mode_;
    const bool watched = (core_.tracing() != nullptr) | (range_hooks.load(std::memory_order_relaxed) != nullptr);
    const bool refuses = core_.unready_.load(std::memory_order_relaxed) | core_.is_crowded() |
                         (core_.stopped_.load(std::memory_order_relaxed) != 0);
    return same_mode & !(inside | watched | refuses);
  }

  // Values that are neither failed nor to come from a GPU.
  bool are_at_hand(int count) const noexcept {
    bool good = core_.late_.none();
    for (int i = 0; i < count; ++i) {
      const VarCore& var = *reads_[i].var;
      good = good && !var.poison && (!var.written_at || core_.gpu()->arrived(var.written_at));
    }
    return good;
  }

  // As admit(): counted first, asked second. False if the engine has stopped.
  bool counts_in(int epoch) noexcept {
    CountShard& counts = core_.counts(here_);
    counts.entered[static_cast<std::size_t>(epoch)].add(here_.owns_slot());
    light_fence(core_.stopped_);
    if (core_.stopped_.load(std::memory_order_relaxed) == 0) [[likely]]
      return true;
    counts.refused.add(here_.owns_slot());
    return false;
  }

  void call(void* body, void (*call_body)(void* body, Queue queue)) noexcept {
    Engine* const engine = core_.facade();
    Engine* const scope = std::exchange(here_.scope, engine);
    try {
      const BodyMode mode(here_.mode, call_.flush_denormals && core_.may_flush_);
      call_body(body, Queue(*engine, cpu(), 1, nullptr));
      for (VarCore* const var : call_.makes)
        var->version.store(1, std::memory_order_release);
    } catch (...) {
      failure_ = capture_failure(new_record(call_.name, OriginScope::stamped(call_.site), clock_ticks()));
    }
    here_.scope = scope;
  }

  void publish_failure() noexcept {
    core_.counts(here_).failed.add(here_.owns_slot());
    for (VarCore* const var : call_.makes)
      var->poison = {failure_, true};
    core_.note_failure(std::move(failure_));
  }

  Core& core_;
  ThisThread& here_;
  const AtOnce& call_;
  union {
    AccessNode reads_[AtOnce::k_most_reads];  // made as they are sorted
  };
  FailureRef failure_;
};

bool EngineAccess::run_at_once(Engine& engine, const AtOnce& call, void* body, void (*run)(void* body, Queue queue)) {
  return AtOnceRun(*engine.core_, call).run(body, run);
}

}  // namespace sluice::detail
