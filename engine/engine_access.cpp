#include <exception>
#include <optional>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>

namespace sluice::detail {

const void* EngineAccess::body_here() noexcept {
  const ThisThread& here = this_thread();
  return here.task != nullptr ? static_cast<const void*>(here.task) : here.gpu_body;
}

void EngineAccess::on_memory_pressure(Engine& engine, std::function<void(Device)> relieve) {
  engine.core_->on_memory_pressure(std::move(relieve));
}

void EngineAccess::relieve_memory(Engine& engine, Device device) {
  engine.core_->relieve_memory(device);
}

bool EngineAccess::await_task(Engine& engine) {
  return engine.core_->await_retirement();
}

std::optional<std::uint64_t> EngineAccess::writes_done(const Var& var) noexcept {
  // In this order: a writer is counted before it leaves.
  const VarMode mode = var.core()->mode.load(std::memory_order_acquire);
  if (mode == VarMode::writing || mode == VarMode::reading_closed)
    return std::nullopt;
  return var.core()->version.load(std::memory_order_acquire);
}

ApartScope::ApartScope() noexcept : before_(std::exchange(this_thread().apart, this)), task_(this_thread().task) {}
ApartScope::~ApartScope() {
  this_thread().apart = before_;
}

bool ApartScope::here() noexcept {
  const ThisThread& here = this_thread();
  return here.apart != nullptr && here.apart->task_ == here.task;
}

bool EngineAccess::passed(const Engine& engine, const PositionSet& positions) noexcept {
  return engine.core_->passed(positions);
}

bool EngineAccess::on_copy_stream(const Engine& engine, Position position) noexcept {
  const GpuPolicy* const gpu = engine.core_->gpu();
  return gpu != nullptr && gpu->on_copy_stream(position);
}

void EngineAccess::wait_passed(Engine& engine, const PositionSet& positions) {
  engine.core_->wait_positions(positions);
}

void EngineAccess::note_completed(Engine& engine, Position position) {
  engine.core_->note_completed(position);
}

/// Calls run() even where the task's body is dropped, as where the GPU that it waits for is lost.
class BehindBody {
 public:
  explicit BehindBody(WorkBehind& work) noexcept : work_(&work) {}
  BehindBody(BehindBody&& other) noexcept : work_(std::exchange(other.work_, nullptr)) {}
  BehindBody& operator=(BehindBody&&) = delete;
  ~BehindBody() {
    if (work_ != nullptr && work_->admitted_)
      work_->run();
  }
  void operator()() noexcept { std::exchange(work_, nullptr)->run(); }

 private:
  WorkBehind* work_;
};

bool EngineAccess::run_behind(Engine& engine, const PositionSet& pending, WorkBehind& work) noexcept {
  Core& core = *engine.core_;
  ThisThread& here = this_thread();
  if (here.lists_depth == 0 && here.gpu_body == nullptr && core.passed(pending)) {
    work.run();
    return true;
  }
  try {
    // In the lists ends a task that is still counted: an engine that stops waits for what it leaves to be done.
    std::optional<WorkScope> of_that_task;
    if (here.lists_depth > 0)
      of_that_task.emplace(here, work_of(core, nullptr));
    const ApartScope nobodys;
    const Var behind = engine.new_var({.pending = &pending});
    const Task task{.name = "give back", .access = {out(behind)}, .on_failed_input = OnFailedInput::run};
    // Not by Engine::push: that may rest, and a region that is being recorded would take the task.
    TaskNode* const node = core.make_task(task, TaskKind::body, Closure(BehindBody(work)), SourceLocation());
    const TaskHandle handle = core.handle_of(node);
    core.admit(node);
    work.admitted_ = true;
    core.push(node);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

bool EngineAccess::is_frozen(const Var& var) noexcept {
  return var.core()->frozen.load(std::memory_order_acquire);
}

}  // namespace sluice::detail
