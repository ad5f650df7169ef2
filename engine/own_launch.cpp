// Launches that are no tasks: what stands in their way, and who has to wait for them.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/named_range.h>
#include <sluice/engine/detail/own_launch.h>

namespace sluice::detail {

namespace {

using Protocol = VarProtocol<Core, VarCore, AccessNode>;

std::vector<AccessNode> reads_of(const AccessList& accesses) {
  std::vector<VarCore*> vars;
  for (const Access& access : accesses) {
    if (access.mode == AccessMode::read)
      vars.push_back(access.var);
  }
  std::sort(vars.begin(), vars.end(), [](const VarCore* a, const VarCore* b) { return a->comes_before(*b); });
  std::vector<AccessNode> reads(vars.size());
  for (std::size_t i = 0; i < vars.size(); ++i)
    reads[i].set(vars[i], nullptr, AccessMode::read);
  return reads;
}

}  // namespace

std::unique_ptr<OwnLaunch> OwnLaunch::of(Engine& engine, const Region& region, std::uint64_t key) {
  std::shared_ptr<RegionVariant> variant = region.variant_of(key);
  if (variant == nullptr || variant->state() != RegionVariant::State::captured)
    return nullptr;
  std::unique_ptr<RegionLaunch> launch = variant->own_launch();
  if (launch == nullptr)
    return nullptr;
  return std::unique_ptr<OwnLaunch>(new OwnLaunch(EngineAccess::core(engine), std::move(variant), std::move(launch)));
}

double OwnLaunch::seconds_alone(const Region& region, std::uint64_t key, int launches) {
  const std::shared_ptr<RegionVariant> variant = region.variant_of(key);
  if (variant == nullptr || variant->state() != RegionVariant::State::captured)
    return 0;
  const std::unique_ptr<RegionLaunch> launch = variant->own_launch();
  if (launch == nullptr || launches < 1)
    return 0;
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  int made = 0;
  while (made < launches && launch->launch())
    ++made;
  const bool is_over = launch->synchronize() == LaunchEnd::over;
  const std::chrono::duration<double> took = Clock::now() - begin;
  return is_over && made == launches ? took.count() / launches : 0;
}

void OwnLaunch::end_with_last() {
  if (RegionRecording* const recording = this_thread().recording)
    recording->follow_all();
}

OwnLaunch::OwnLaunch(Core& core, std::shared_ptr<RegionVariant> variant, std::unique_ptr<RegionLaunch> launch)
    : core_(core),
      variant_(std::move(variant)),
      launch_(std::move(launch)),
      reads_(reads_of(variant_->program.access)),
      good_(reads_.size()),
      forks_(fork_count()) {}

OwnLaunch::~OwnLaunch() {
  if (forks_ == fork_count())
    return;
  static_cast<void>(launch_.release());  // the parent's alone: no call may be made to destroy it
  static_cast<void>(new (std::nothrow) std::shared_ptr<RegionVariant>(std::move(variant_)));
}

// A thread of the user's, outside bodies, with nothing to be noted of what it does.
bool OwnLaunch::is_plain() const noexcept {
  const ThisThread& here = this_thread();
  const bool inside = (here.task != nullptr) | (here.recording != nullptr) | (here.group_scope != nullptr) |
                      (here.gpu_body != nullptr) | here.draining | here.in_parallel;
  const bool watched = (core_.tracing() != nullptr) | (range_hooks.load(std::memory_order_relaxed) != nullptr);
  const bool refuses = (core_.era_ != 0) | (core_.stopped_.load(std::memory_order_relaxed) != 0);
  return !(inside | watched | refuses) && forks_ == fork_count();
}

// Values that are neither failed nor to come. Of what one writer has left that is found out once.
bool OwnLaunch::are_at_hand() noexcept {
  for (std::size_t i = 0; i < reads_.size(); ++i) {
    const VarCore& var = *reads_[i].var;
    if (var.poisoned())
      return false;
    if (var.written_at == good_[i]) [[likely]]
      continue;
    GpuPolicy& gpu = *core_.gpu();
    if (!gpu.arrived(var.written_at) && !(gpu.ask(var.written_at) && gpu.arrived(var.written_at)))
      return false;
    if (core_.failure_of(var) != nullptr)  // it may have failed late
      return false;
    good_[i] = var.written_at;
  }
  return true;
}

// As admit(): counted first, asked second. False if the engine has stopped.
bool OwnLaunch::counts_in() noexcept {
  const ThisThread& here = this_thread();
  CountShard& counts = core_.counts(here);
  epoch_ = core_.epoch_.load(std::memory_order_relaxed) & 1;
  counts.entered[static_cast<std::size_t>(epoch_)].add(here.owns_slot());
  light_fence(core_.stopped_);
  return core_.stopped_.load(std::memory_order_relaxed) == 0;
}

void OwnLaunch::leave_reads() noexcept {
  ThisThread& here = this_thread();
  core_.enter_lists(here);
  here.draining = true;
  for (AccessNode& read : reads_)
    Protocol::leave(core_, read, static_cast<unsigned>(here.slot));
  core_.leave_lists(here);
  if (here.ready_head != nullptr) [[unlikely]]  // what waited behind the reads, as where a task ends
    Core::run_ready(here);
  here.draining = false;
}

bool OwnLaunch::begin() {
  if (!is_plain())
    return false;
  const ThisThread& here = this_thread();
  core_.enter_lists(here);
  const bool entered =
      Protocol::try_read(core_, reads_.data(), static_cast<int>(reads_.size()), static_cast<unsigned>(here.slot));
  core_.leave_lists(here);
  if (!entered)
    return false;
  if (!are_at_hand()) {
    leave_reads();
    return false;
  }
  if (counts_in() && launch_->launch()) [[likely]]
    return true;
  core_.counts(here).refused.add(here.owns_slot());
  end();
  return false;
}

void OwnLaunch::end() noexcept {
  leave_reads();
  core_.leave_epoch(epoch_);
}

LaunchEnd OwnLaunch::synchronize() noexcept {
  return launch_->synchronize();
}

void OwnLaunch::give_up() noexcept {
  launch_->give_up();
}

bool OwnLaunch::take_report() noexcept {
  return launch_->take_report();
}

}  // namespace sluice::detail
