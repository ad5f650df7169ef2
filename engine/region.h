#pragma once

// A door of its own: tasks that a program pushes again and again, launched as one.
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include <sluice/engine/engine.h>
#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/engine/var.h>

namespace sluice {

namespace detail {
class OwnLaunch;
class RegionVariant;
}  // namespace detail

/// What a region did so far. Work that the GPU has not been given yet is not counted yet.
struct RegionCounts {
  std::uint64_t captured = 0;      // graphs made of the tasks' bodies
  std::uint64_t instantiated = 0;  // executables made for them
  std::uint64_t updated = 0;       // executables that served a dropped graph and were brought up to date instead
  std::uint64_t launched = 0;
  std::uint64_t in_order = 0;  // runs whose tasks could not be captured: launched one after the other
};

/// A task of a region whose body could not be captured.
struct RegionRefusal {
  std::string task;  // empty: no one task's fault, CUDA refuses the whole graph
  SourceLocation site = {};
};

/// GPU tasks that are pushed together and often: recorded once, then replayed as one task that launches one CUDA graph.
/// In the graph a task waits for those that its Vars say, and for no other. To the rest of the engine a region is one
/// task, which reads and writes what its tasks do: it begins when all that is there, and fails as a whole.
///
/// The memory that the tasks use must stay where it is until forget() or the region's end. The region keeps the Vars
/// that it names, the tasks' bodies with what they own, and scratch memory (region_keeps).
class SLUICE_API Region {
 public:
  /// Throws DeviceError for a device that is not a GPU or is not there, in a build without CUDA always. The engine must
  /// outlive every run(); the region itself may go at any time, before its work is done, and after the engine.
  Region(Engine& engine, Device gpu, const std::string& name);
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  ~Region();

  /// Does what push_tasks() would: at the first run of `key` by calling it, with the calling thread's pushes collected
  /// instead of pushed; afterwards by replaying what it pushed then, without a call. So the key stands for all that the
  /// tasks depend on: Vars, shapes, addresses, scalars, and the random numbers drawn at the push, which a replay
  /// repeats. The eight keys used last are known; more cost a recording each time. Does not wait for the GPU; nor does
  /// the task that replays, but where the tasks hold a branch (a plan's cond) and CUDA refuses to capture, instantiate
  /// or launch them: who issues that task, perhaps this thread, then waits for what the branch is chosen by.
  ///
  /// The tasks must be `capturable`, of this engine and this GPU; they carry no stop token, OnFailedInput::run or
  /// legacy_stream, and begin with the most urgent of their priorities. Their handles are empty. Throws ValueError for
  /// other tasks, for a wait and for a run() inside push_tasks, also if that hides the error; and what push_tasks and
  /// Engine::push throw. Then nothing was pushed.
  ///
  /// A body that throws fails the whole region, with its own name in the error, and the next run records again. Where a
  /// body does what cannot be captured, the bodies are called again, one after the other on one stream; such a key is
  /// recorded each time. Any thread may call it, also several at once.
  template <class Push>
  void run(std::uint64_t key, Push&& push_tasks, SourceLocation site = SourceLocation::current()) {
    using Held = std::remove_reference_t<Push>;
    auto* held = std::addressof(push_tasks);
    run_recorded(
        key, {}, [](void* context) { (**static_cast<Held**>(context))(); }, &held, site);
  }

  /// The same where the memory of `changing` is another array's each time, at the addresses that it had when the key
  /// was recorded. Of those Vars the region keeps only how its tasks use them: each run uses the ones that it is given
  /// so. As many as at the recording, in the same places.
  template <class Push>
  void run(
      std::uint64_t key,
      std::span<const Var> changing,
      Push&& push_tasks,
      SourceLocation site = SourceLocation::current()) {
    using Held = std::remove_reference_t<Push>;
    auto* held = std::addressof(push_tasks);
    run_recorded(
        key, changing, [](void* context) { (**static_cast<Held**>(context))(); }, &held, site);
  }

  /// Drops all that was recorded. What is under way ends as if it were there.
  void forget();
  RegionCounts counts() const noexcept;
  /// What kept the key that was to be captured last from it: a body did what a capture does not take. None where it was
  /// captured, or none has run yet. Any thread may ask.
  std::optional<RegionRefusal> refusal() const;

 private:
  friend class detail::OwnLaunch;
  struct State;
  std::shared_ptr<detail::RegionVariant> variant_of(std::uint64_t key) const;
  void run_recorded(
      std::uint64_t key, std::span<const Var> changing, void (*push_tasks)(void*), void* context, SourceLocation site);
  std::unique_ptr<State> state_;
};

/// For bodies that use memory which others may have once the body has ended. Outside a region's capture: false, and the
/// memory is given back as always. Inside: true, since replays use it too; then hook->on_retire() is called, on some
/// thread, when there are no more replays, and told what streams may still do. Throws std::bad_alloc.
SLUICE_API bool region_keeps(RetireHook& hook);
/// How well a hook suits, the less the better.
using RegionCost = std::size_t (*)(const RetireHook& hook, const void* context);
inline constexpr std::size_t k_unsuitable = ~std::size_t{0};
/// In a body that a region captures: the hook of least cost among those that this body, and bodies that the replays
/// run before it, gave to region_keeps(); null if each is k_unsuitable, and outside of such bodies. It is the region's
/// no longer: its memory may be used here, behind what uses it there, and is to be kept again. `waits`: also one of a
/// body that might run beside this one, which comes after it then.
SLUICE_API RetireHook* region_lends(RegionCost cost, const void* context, bool waits = false);
/// True in a body that a region captures.
SLUICE_API bool region_captures() noexcept;
/// True while this thread is in Region::run and records what push_tasks pushes.
SLUICE_API bool region_records() noexcept;

}  // namespace sluice
