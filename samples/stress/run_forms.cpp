// The forms of tasks that are no plain bodies on the CPU.
#include <sys/wait.h>
#include <unistd.h>

#include <sluice/engine/interop.h>

#include "samples/stress/run.h"

namespace samples::stress {

using namespace sluice;

#if defined(__SANITIZE_THREAD__)
constexpr bool k_follows_forks = false;  // not of processes with threads
#else
constexpr bool k_follows_forks = true;
#endif

Coroutine Run::awaiting_body(const TaskPlan& task) {
  begin(task);
  for (const Step& next : task.inside) {
    if (next.act != Act::wait_read && next.act != Act::wait_write) {
      step(next);
      continue;
    }
    const Var& var = vars[next.target];
    const Access access = next.act == Act::wait_read ? read(var) : write(var);
    std::exception_ptr error;
    try {
      co_await access;
    } catch (...) {
      error = std::current_exception();
    }
    Seen seen{.done = true};
    if (error != nullptr)
      seen = seen_of(error);
    note_value(next, std::move(seen));
  }
  end(task);
}

Work Run::work_of(const TaskPlan& task) const {
  Work work{
      .kind = task.copies ? WorkKind::copied : WorkKind::step,
      .count = static_cast<std::uint8_t>(task.uses.size()),
      .fails = task.fault != Fault::none,
      .spin = static_cast<std::uint32_t>(task.spin),
      .number = task.number,
      .log = gpu_logs_ + task.number,
  };
  for (std::size_t i = 0; i < task.uses.size(); ++i) {
    const Use& use = task.uses[i];
    const int home = plan.homes[use.cell];
    work.cell[i] = home < 0 || home == task.gpu ? cells[use.cell].at : nullptr;
    work.touch[i] = use.touch;
  }
  return work;
}

/// The value, and what the kernel could not see because the first cell lies on another GPU.
void Run::enqueue_copies(void* stream, const TaskPlan& task, const Work& work) const {
  const Content* const from = cells[task.uses[0].cell].at;
  if (work.cell[0] == nullptr) {
    enqueue_copy(stream, &work.log->digest, &from->value, sizeof(from->value));
    enqueue_copy(stream, &work.log->before[0], &from->writers, sizeof(from->writers));
  }
  enqueue_copy(stream, &cells[task.uses[1].cell].at->value, &from->value, sizeof(from->value));
}

void Run::gpu_body(const TaskPlan& task, const Queue& queue) {
  bodies_run().fetch_add(1, std::memory_order_relaxed);
  const bool fails = task.fault != Fault::none && !(plant_ == Plant::error && task.number % 2 == 0);
  if (fails && !task.throws_late)
    throw_fault(task);
  const Work work = work_of(task);
  void* const stream = task.legacy ? nullptr : queue.stream();
  enqueue_work(stream, work);
  if (task.copies)
    enqueue_copies(stream, task, work);
  follow(task.inside);
  if (fails)
    throw_fault(task);
}

void Run::push_foreign(const TaskPlan& task) {
  const ForeignStream stream(task.gpu);
  const AccessList list = accesses(task);
  export_stream(engine_, gpu(task.gpu), stream.get(), list);
  stream.launch(work_of(task));
  tasks[task.number].handle = import_stream(engine_, gpu(task.gpu), stream.get(), list);
}

void Run::run_region(const TaskPlan& task) {
  const RegionPlan& region = plan.regions[task.region];
  regions_[task.region].region.run(
      task.program, [&] { push_region(region, task.region, region.programs[task.program]); });
}

void Run::push_region(const RegionPlan& region, std::uint32_t number, const RegionPlan::Program& program) {
  const RegionState& state = regions_[number];
  Task first{.name = "open", .device = gpu(region.gpu), .access = {write(state.own)}, .capturable = true};
  Task last{.name = "close", .device = gpu(region.gpu), .access = {write(state.own)}, .capturable = true};
  Work whole{.count = static_cast<std::uint8_t>(program.uses.size()), .number = number, .log = state.logs};
  whole.turn = state.turn;
  for (std::size_t i = 0; i < program.uses.size(); ++i) {
    const Use& use = program.uses[i];
    whole.cell[i] = cells[use.cell].at;
    whole.touch[i] = use.touch;
    first.access.push_back(read(vars[use.cell]));
    if (use.touch != Touch::read)
      last.access.push_back(write(vars[use.cell]));
  }
  const auto push = [this](const Task& task, const Work& work) {
    engine_.push(task, [work](Queue queue) { enqueue_work(queue.stream(), work); });
  };
  whole.kind = WorkKind::open;
  push(first, whole);
  for (std::size_t i = 0; i < program.tasks.size(); ++i) {
    const Combine& combine = program.tasks[i];
    const std::uint32_t to = program.uses[combine.to].cell, from = program.uses[combine.from].cell;
    const Work work{.kind = WorkKind::combine, .count = 2, .number = i, .cell = {cells[to].at, cells[from].at}};
    push(
        {.name = "combine",
         .device = gpu(region.gpu),
         .access = {write(vars[to]), read(vars[from])},
         .capturable = true},
        work);
  }
  whole.kind = WorkKind::close;
  push(last, whole);
}

namespace {

/// In the child: uses the engine as a child may. The exit code, 0 if all went as it must.
int use_engine(Engine& engine, bool gpus) {
  constexpr int k_tasks = 20;
  const Var x = engine.new_var(), y = engine.new_var();
  std::uint64_t value = 0, expected = 0;
  for (int i = 0; i < k_tasks; ++i) {
    expected = mix(expected);
    engine.push({.name = "child", .access = {write(x)}}, [&] { value = mix(value); });
    engine.push({.name = "beside", .access = {read(x), write(y)}}, [] {});
  }
  engine.wait(x);  // not wait_all: it would tell of the parent's failures
  engine.wait(write(y));
  if (value != expected || x.version() != k_tasks)
    return 2;
  if (!gpus)
    return 0;
  try {
    engine.push({.name = "on a GPU", .device = gpu(0), .access = {write(x)}}, [] {});
  } catch (const Error&) {
    return 0;
  }
  return 3;
}

/// In the child of a body: it is refused.
int push_in_vain(Engine& engine) {
  try {
    engine.push({.name = "child"}, [] {});
  } catch (const Forked&) {
    return 0;
  }
  return 4;
}

}  // namespace

void Run::fork_child(bool inside) {
  if (!k_follows_forks)
    return;
  const pid_t child = fork();
  if (child == 0) {
    int code = 5;
    alarm(60);
    try {
      code = inside ? push_in_vain(engine_) : use_engine(engine_, !plan.regions.empty());
    } catch (...) {
    }
    _exit(code);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child)
    return note("a process could not be made or was not waited for");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    note(message("a child process ended with ", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status)));
}

}  // namespace samples::stress
