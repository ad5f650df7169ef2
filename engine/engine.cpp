#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unistd.h>

#include <sluice/engine/detail/completion_control.h>
#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/detail/group_state.h>
#include <sluice/engine/detail/named_range.h>
#include <sluice/engine/detail/options.h>
#include <sluice/engine/detail/region.h>
#include <sluice/engine/engine.h>

namespace sluice {

namespace detail {

int next_slot_id() noexcept {
  static std::atomic<int> next{0};
  return next.fetch_add(1);
}

void check_slot(int id) {
  require(
      id < k_max_slots, [&] { return message("engine: more than ", k_max_slots, " types in slots and extensions"); });
}

namespace {

constexpr std::uint64_t k_usual_live_tasks = 65536;  // a step beyond a small limit is no smaller

}  // namespace

Core::Core(Engine* facade, const EngineOptions& options)
    : options_(options),
      thread_mode_(this_thread().mode.without_body()),
      may_flush_(denormals_of(options) == Denormals::flush),
      facade_(facade),
      inside_(this),
      in_flight_(options_) {
  prepare_fences();
  no_memory_extras();  // made while there is memory
  random_seed.store(options.seed);
  if (options.max_live_tasks != 0)
    live_restraint_.set(options.max_live_tasks, std::max<std::uint64_t>(options.max_live_tasks, k_usual_live_tasks));
  cpu_ = make_cpu_policy(*this, options_);
  in_flight_.know_host(cpu_->workers());
  watch_forks(this, true);
}

Core::~Core() {
  watch_forks(this, false);
  // Rooms first: what they hold of the GPU goes before its streams.
  for (auto& extension : extensions_)
    extension.reset();
}

GpuPolicy* Core::need_gpu() {
  require<Forked>(era_ == 0, [] { return std::string("a GPU cannot be used in a forked child; exec first"); });
  if (GpuPolicy* made = gpu())
    return made;
  const std::lock_guard hold(extensions_mutex_);
  if (gpu_owner_ == nullptr && num_gpus() > 0) {
    gpu_owner_ = make_gpu_policy(*this, options_);
    gpu_.store(gpu_owner_.get(), std::memory_order_release);
  }
  return gpu_owner_.get();
}

void Core::release() noexcept {
  if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete this;
}

bool Core::passed(const PositionSet& positions) const noexcept {
  for (Position position : positions) {
    if (gpu() != nullptr && !gpu()->passed(position))
      return false;
  }
  return true;
}

void* Core::extension_at(int id, std::shared_ptr<void> (*make)(Engine&)) {
  check_slot(id);
  auto& pointer = extension_pointers_[static_cast<std::size_t>(id)];
  if (void* made = pointer.load(std::memory_order_acquire))
    return made;
  const std::lock_guard hold(extensions_mutex_);
  auto& owner = extensions_[static_cast<std::size_t>(id)];
  if (owner == nullptr) {
    owner = make(inside_);
    pointer.store(owner.get(), std::memory_order_release);
  }
  return owner.get();
}

void Core::on_memory_pressure(std::function<void(Device)> relieve) {
  const std::lock_guard hold(pressure_mutex_);
  pressure_hooks_.push_back(std::move(relieve));
}

void Core::relieve_memory(Device device) {
  std::vector<std::function<void(Device)>> hooks;
  {
    const std::lock_guard hold(pressure_mutex_);
    hooks = pressure_hooks_;
  }
  for (const auto& relieve : hooks)
    relieve(device);
}

}  // namespace detail

// -- Engine --

Engine::Engine(EngineOptions options) : owns_core_(true) {
  require(options.workers >= 0, [&] { return message("Engine: workers = ", options.workers, " is negative"); });
  require(options.hot_reads >= 0, [&] { return message("Engine: hot_reads = ", options.hot_reads, " is negative"); });
  detail::check_modes(options);
  core_ = new detail::Core(this, options);
}

Engine::Engine(detail::Core* inside) noexcept : core_(inside), owns_core_(false) {}

Engine::~Engine() {
  if (owns_core_)
    core_->end_facade();
}

namespace {

// Tasks that still run when the process ends call into libraries whose static objects are destroyed by then, unless
// the engine drains before. A thread-local of the main thread goes before every static object; where another thread
// made the engine, an exit handler is the best there is.
void drain_at_exit(detail::Core& standard) {
  static detail::Core* core = nullptr;
  core = &standard;
  struct AtEnd {
    ~AtEnd() { core->stop_at_exit(); }
  };
  if (getpid() == gettid()) {
    static thread_local AtEnd at_end;
    (void)at_end;
  } else {
    std::atexit([] { core->stop_at_exit(); });
  }
}

}  // namespace

Engine& Engine::current() {
  const detail::ThisThread& here = detail::this_thread();
  if (here.scope != nullptr)
    return *here.scope;
  if (here.core != nullptr)
    return *here.core->facade();
  static Engine* standard = [] {
    auto* engine = new Engine;  // leaked: arrays with static life may outlive every destructor
    drain_at_exit(detail::EngineAccess::core(*engine));
    return engine;
  }();
  return *standard;
}

Var Engine::new_var(const VarOptions& options) {
  return Var(core_->new_var(options));
}

TaskHandle Engine::push_closure(const Task& task, Closure&& body, SourceLocation site) {
  const detail::NamedRange range(detail::NamedRange::k_push, task.name.c_str());
  detail::ThisThread& here = detail::this_thread();
  if (here.origin != nullptr || here.task_origin != 0) [[unlikely]]
    site = OriginScope::stamped(site);
  if (here.recording != nullptr) [[unlikely]] {
    here.recording->add(*core_, task, std::move(body), site);
    return {};
  }
  const bool counted = (++here.pushes & 63) == 0;
  if (counted || core_->is_crowded()) [[unlikely]]
    core_->hold_back(counted);
  detail::TaskNode* node = core_->make_task(task, detail::TaskKind::body, std::move(body), site);
  TaskHandle handle = core_->handle_of(node);
  core_->admit(node);
  detail::GroupState* const group = here.task == nullptr ? nullptr : node->group();
  core_->push(node);
  if (group != nullptr) [[unlikely]]  // which the node keeps, as the handle keeps that
    group->note_young(detail::Core::tagged(node), false);
  core_->cpu().after_push();
  return handle;
}

void Engine::wait(Access access) {
  core_->wait(access);
}
void Engine::wait_all() {
  core_->wait_all();
}

bool Engine::forgive(const Error& error) noexcept {
  if (error.record() == nullptr || error.record() == detail::no_memory_failure()->record)
    return false;
  error.record()->forgiven.store(true);
  return true;
}

void Engine::clear_error(const Var& var) {
  core_->clear_error(var);
}
void Engine::freeze(const Var& var) {
  core_->freeze(var, true);
}
void Engine::unfreeze(const Var& var) {
  core_->freeze(var, false);
}
void Engine::stop(Stop how) {
  detail::refuse_while_recording("stop");
  core_->stop(how);
}
void Engine::restart() {
  core_->restart();
}
int Engine::workers() const noexcept {
  return core_->cpu().workers();
}

EngineCounters Engine::counters() const noexcept {
  return core_->counters();
}

void Engine::start_trace() {
  core_->start_trace();
}
Trace Engine::stop_trace() {
  return core_->stop_trace();
}
bool Engine::tracing() const noexcept {
  return core_->tracing() != nullptr;
}

void Engine::seed(std::uint64_t seed) noexcept {
  core_->random_seed.store(seed);
  core_->random_offset.store(0);
}

RandomBlock Engine::random_state() const noexcept {
  return {core_->random_seed.load(), core_->random_offset.load()};
}

void Engine::set_random_state(const RandomBlock& state) noexcept {
  core_->random_seed.store(state.seed);
  core_->random_offset.store(state.offset);
}

RandomBlock Engine::take_random(std::uint64_t counters) noexcept {
  return {core_->random_seed.load(), core_->random_offset.fetch_add(counters)};
}

void Engine::flush() {
  core_->flush();
}

void* Engine::extension_at(int id, std::shared_ptr<void> (*make)(Engine&)) {
  return core_->extension_at(id, make);
}

AttachScope::AttachScope(Engine& engine)
    : engine_(detail::EngineAccess::core(engine).cpu().attach() ? &engine : nullptr) {}
AttachScope::~AttachScope() {
  if (engine_ != nullptr)
    detail::EngineAccess::core(*engine_).cpu().detach();
}

EngineScope::EngineScope(Engine& engine) noexcept : before_(std::exchange(detail::this_thread().scope, &engine)) {}
EngineScope::~EngineScope() {
  detail::this_thread().scope = before_;
}

}  // namespace sluice
