// Regions as the rest of the engine sees them: which programs are known, and the one task that stands for many.
#include <algorithm>
#include <mutex>
#include <new>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/region.h>
#include <sluice/engine/detail/this_thread.h>
#include <sluice/engine/detail/unseen_writes.h>
#include <sluice/engine/region.h>

namespace sluice {

namespace detail {

namespace {

constexpr std::size_t k_variants = 8;

thread_local RegionKeeps* keeps_here = nullptr;

}  // namespace

// In a gap of what the thread has anyway: see static_tls.h.
std::uint32_t unseen_writes() noexcept {
  return this_thread_state.unseen_writes;
}
void note_unseen_writes() noexcept {
  ++this_thread_state.unseen_writes;
}
SeenWrites::SeenWrites() noexcept : before_(this_thread_state.unseen_writes) {}
SeenWrites::~SeenWrites() {
  this_thread_state.unseen_writes = before_;
}

void RegionKeeps::add_before(std::vector<std::uint64_t>& before, std::size_t step) const noexcept {
  for (std::size_t word = 0; word < before_[step].size(); ++word)
    before[word] |= before_[step][word];
  before[step / 64] |= std::uint64_t{1} << (step % 64);
}

void RegionKeeps::begin_step(const std::vector<RegionTask>& tasks, const RegionTask& task) {
  const std::size_t at = before_.size();
  std::vector<std::uint64_t> before((at + 63) / 64);
  const auto add = [&](int earlier) {
    const auto step = static_cast<std::size_t>(earlier);
    add_before(before, step);
    if (!tasks[step].choice)
      return;
    const std::size_t end = std::min(at, extent_of(tasks, step).end);
    for (std::size_t part = step + 1; part < end; ++part)
      before[part / 64] |= std::uint64_t{1} << (part % 64);
  };
  if (task.side.branch >= 0)
    add(task.side.branch);
  else
    std::for_each(task.after.begin(), task.after.end(), add);
  before_.push_back(std::move(before));
}

bool RegionKeeps::comes_after(std::size_t user) const noexcept {
  const std::size_t step = user - 1;
  return user == before_.size() || (before_.back()[step / 64] >> (step % 64) & 1) != 0;
}

bool RegionKeeps::come_after(std::size_t user) noexcept {
  if (comes_after(user))
    return true;
  if (!steps_->follow(user - 1))
    return false;
  add_before(before_.back(), user - 1);
  return true;
}

RetireHook* RegionKeeps::lend(RegionCost cost, const void* context, bool waits) noexcept {
  auto best = kept_.end();
  std::size_t least = k_unsuitable;
  for (auto kept = kept_.begin(); kept != kept_.end(); ++kept) {
    if (!waits && !comes_after(kept->user))
      continue;
    if (const std::size_t its = cost(*kept->hook, context); its < least) {
      best = kept;
      least = its;
    }
  }
  if (best == kept_.end() || !come_after(best->user))
    return nullptr;
  RetireHook* const lent = best->hook;
  *best = kept_.back();
  kept_.pop_back();
  return lent;
}

RegionKeepsScope::RegionKeepsScope(RegionKeeps& keeps) noexcept {
  keeps_here = &keeps;
}
RegionKeepsScope::~RegionKeepsScope() {
  keeps_here = nullptr;
}

#if !SLUICE_CUDA
std::shared_ptr<RegionGraphs> make_region_graphs(Core&, Device) {
  throw DeviceError("Region: this build is without CUDA");
}
#endif

}  // namespace detail

bool region_captures() noexcept {
  return detail::keeps_here != nullptr;
}

bool region_records() noexcept {
  return detail::this_thread().recording != nullptr;
}

bool region_keeps(RetireHook& hook) {
  if (detail::keeps_here == nullptr)
    return false;
  detail::keeps_here->add(hook);
  return true;
}

RetireHook* region_lends(RegionCost cost, const void* context, bool waits) {
  return detail::keeps_here == nullptr ? nullptr : detail::keeps_here->lend(cost, context, waits);
}

namespace {

// In a forked child: streams and graphs are the parent's alone, and no call may be made to destroy them.
template <class Kept>
void leave_to_parent(Kept& kept) {
  static_cast<void>(new (std::nothrow) Kept(std::move(kept)));
}

}  // namespace

struct Region::State {
  using VariantRef = std::shared_ptr<detail::RegionVariant>;
  struct Known {
    std::uint64_t key;
    VariantRef variant;
  };

  Engine& engine;
  const Device device;
  const TaskName name;
  std::shared_ptr<detail::RegionGraphs> graphs;
  std::mutex mutex = {};
  std::vector<Known> known = {};  // the one used last comes first
  const std::uint32_t forks = detail::fork_count();

  bool is_parents() const noexcept { return forks != detail::fork_count(); }

  VariantRef find(std::uint64_t key) {
    const std::lock_guard hold(mutex);
    const auto at = std::find_if(known.begin(), known.end(), [key](const Known& one) { return one.key == key; });
    if (at == known.end())
      return nullptr;
    std::rotate(known.begin(), at, at + 1);
    return known.front().variant;
  }

  void keep(std::uint64_t key, VariantRef variant) {
    std::vector<Known> gone;  // dropped without the lock: bodies own what they like
    const std::lock_guard hold(mutex);
    gone.reserve(1);
    known.reserve(detail::k_variants);
    const auto same = std::find_if(known.begin(), known.end(), [key](const Known& one) { return one.key == key; });
    const auto leaves = same != known.end() || known.size() < detail::k_variants ? same : known.end() - 1;
    if (leaves != known.end()) {
      gone.push_back(std::move(*leaves));
      known.erase(leaves);
    }
    known.insert(known.begin(), Known{key, std::move(variant)});
  }
};

Region::Region(Engine& engine, Device gpu, const std::string& name) {
  require<DeviceError>(gpu.is_gpu() && gpu.index >= 0 && gpu.index < num_gpus(), [&] {
    return message("Region: \"", name, "\" is for a GPU, not ", gpu, "; there are ", num_gpus());
  });
  state_.reset(
      new State{engine, gpu, TaskName(name), detail::make_region_graphs(detail::EngineAccess::core(engine), gpu)});
}

Region::~Region() {
  if (!state_->is_parents())
    return;
  leave_to_parent(state_->known);
  leave_to_parent(state_->graphs);
}

void Region::run_recorded(
    std::uint64_t key, std::span<const Var> changing, void (*push_tasks)(void*), void* context, SourceLocation site) {
  using Variant = detail::RegionVariant;
  const char* const name = state_->name.c_str();
  if (detail::RegionRecording* outer = detail::this_thread().recording)
    outer->refuse(message("Region: \"", name, "\" cannot run inside region \"", outer->region(), "\""));
  const detail::UnseenWrites unseen;  // by its tasks, which nobody pushes one by one
  std::shared_ptr<Variant> variant = state_->find(key);
  const Variant::State found = variant == nullptr ? Variant::State::failed : variant->state();
  const bool again = found == Variant::State::failed || found == Variant::State::spoilt;
  if (again) {
    detail::RegionProgram program;
    {
      detail::RegionRecording recording(detail::EngineAccess::core(state_->engine), state_->device, name);
      push_tasks(context);
      program = recording.finish(changing);
    }
    variant = state_->graphs->make(std::move(program), found == Variant::State::spoilt);
  }
  Task task{.name = state_->name, .device = state_->device, .access = variant->program.access};
  for (const auto [place, mode] : variant->program.changing) {
    require<ValueError>(place < changing.size(), [&] {
      return message("Region: \"", name, "\" was given ", changing.size(), " changing Vars, its key had more");
    });
    task.access.push_back({changing[place].core(), mode});
  }
  task.priority = variant->program.priority;
  state_->engine.push(
      task, [variant](Queue queue) { variant->run(queue); }, site);
  if (again)
    state_->keep(key, std::move(variant));
}

std::shared_ptr<detail::RegionVariant> Region::variant_of(std::uint64_t key) const {
  return state_->find(key);
}

void Region::forget() {
  std::vector<State::Known> gone;
  const std::lock_guard hold(state_->mutex);
  if (state_->is_parents())
    return leave_to_parent(state_->known);
  gone.swap(state_->known);
}

RegionCounts Region::counts() const noexcept {
  return state_->graphs->counts();
}

std::optional<RegionRefusal> Region::refusal() const {
  return state_->graphs->refusal();
}

}  // namespace sluice
