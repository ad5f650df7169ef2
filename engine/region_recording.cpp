// What a region records: the tasks that a thread pushes meanwhile, and what their Vars say about their order.
#include <algorithm>
#include <utility>

#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/region.h>

namespace sluice::detail {

namespace {

/// Each Var once, as Engine::push has it: out beside a read is a write.
AccessList merged(const AccessList& list) {
  AccessList once;
  for (Access access : list) {
    if (access.mode == AccessMode::commute)
      access.mode = AccessMode::write;
    const auto same = std::find_if(once.begin(), once.end(), [&](const Access& a) { return a.var == access.var; });
    if (same == once.end())
      once.push_back(access);
    else if (same->mode != access.mode)
      same->mode = AccessMode::write;
  }
  return once;
}

void follow(RegionTask& task, int earlier) {
  if (earlier >= 0 && std::find(task.after.begin(), task.after.end(), earlier) == task.after.end())
    task.after.push_back(earlier);
}

/// Null if the task may be part of a region of that device.
const char* reason_against(const Task& task, Device device) {
  if (task.device != device)
    return task.device.is_cpu() ? "is a CPU task" : "is for another GPU";
  if (!task.capturable)
    return "is not capturable";
  if (task.legacy_stream)
    return "uses the legacy stream";
  if (task.on_failed_input == OnFailedInput::run)
    return "is to run on failed input";
  if (task.stop.stop_possible())
    return "has a stop token of its own";
  return nullptr;
}

}  // namespace

void throw_recording(const char* what) {
  RegionRecording& recording = *this_thread().recording;
  recording.refuse(message(
      what, ": not while region \"", recording.region(), "\" records: its tasks are pushed when push_tasks returns"));
}

RegionRecording::RegionRecording(Core& core, Device device, const char* region)
    : core_(core), device_(device), region_(region), newest_before_(Var(core.new_var({})).id()) {
  this_thread().recording = this;
}

RegionRecording::~RegionRecording() {
  this_thread().recording = nullptr;
}

void RegionRecording::refuse(const std::string& text) {
  refused_ = std::make_exception_ptr(ValueError(text));
  std::rethrow_exception(refused_);
}

void RegionRecording::check(const Core& core, const Task& task) {
  const char* reason = &core == &core_ ? reason_against(task, device_) : "is pushed to another engine";
  for (const Access& access : task.access) {
    if (reason != nullptr)
      break;
    if (access.var == nullptr)
      reason = "names an empty Var";
    else if (access.var->core != &core_)
      reason = "names a Var of another engine";
    else if (access.mode != AccessMode::read && access.var->frozen.load(std::memory_order_relaxed))
      reason = "writes a frozen Var";
  }
  if (reason != nullptr)
    refuse(message("push: task \"", task.name.c_str(), "\" cannot be part of region \"", region_, "\": it ", reason));
}

RegionRecording::Use& RegionRecording::use_of(Access access) {
  const auto [at, is_new] = uses_.try_emplace(access.var);
  Use& use = at->second;
  if (is_new) {
    use.access = program_.access.size();
    program_.access.push_back(access);
    retain(access.var);
    program_.vars.emplace_back(access.var);
    return use;
  }
  // Read or overwritten first, used otherwise later: what it held counts, unless it was overwritten first.
  AccessMode& mode = program_.access[use.access].mode;
  if (mode == AccessMode::read && access.mode != AccessMode::read)
    mode = AccessMode::write;
  return use;
}

void RegionRecording::use(Access access, RegionTask& task) {
  const int number = static_cast<int>(program_.tasks.size());
  Use& use = use_of(access);
  if (!use.sides.empty() || (side_.branch >= 0 && use.writer < 0 && use.readers.empty()))
    use.sides.push_back({number, access.mode});
  if (access.mode == AccessMode::read) {
    follow(task, use.writer);
    use.readers.push_back(number);
    return;
  }
  for (int reader : use.readers)
    follow(task, reader);
  if (use.readers.empty())
    follow(task, use.writer);
  use.readers.clear();
  use.writer = number;
}

void RegionRecording::add(const Core& core, const Task& task, Closure&& body, SourceLocation site) {
  check(core, task);
  RegionTask recorded{
      .body = std::move(body), .name = task.name.c_str(), .kept_name = task.name, .site = site, .after = {}};
  for (const Access& access : merged(task.access))
    use(access, recorded);
  place(recorded);
  program_.priority = std::min(program_.priority, task.priority);
  program_.tasks.push_back(std::move(recorded));
}

void RegionRecording::follow_all() {
  std::vector<RegionTask>& tasks = program_.tasks;
  std::vector<bool> followed(tasks.size());
  for (const RegionTask& task : tasks) {
    for (const int earlier : task.after)
      followed[static_cast<std::size_t>(earlier)] = true;
  }
  for (std::size_t at = 0; at + 1 < tasks.size(); ++at) {
    if (!followed[at] && tasks[at].side.branch < 0)
      follow(tasks.back(), static_cast<int>(at));
  }
}

void RegionRecording::take_out(std::span<const Var> changing) {
  AccessList stays;
  std::vector<Var> kept;
  for (std::size_t at = 0; at < program_.access.size(); ++at) {
    const Access access = program_.access[at];
    bool changes = false;
    for (std::size_t place = 0; place < changing.size(); ++place) {  // what is one Var now may be two another time
      if (changing[place].core() != access.var)
        continue;
      program_.changing.push_back({place, access.mode});
      changes = true;
    }
    if (changes)
      continue;
    stays.push_back(access);
    kept.push_back(std::move(program_.vars[at]));
  }
  program_.access = std::move(stays);
  program_.vars = std::move(kept);
}

RegionProgram RegionRecording::finish(std::span<const Var> changing) {
  if (refused_ != nullptr)
    std::rethrow_exception(refused_);
  settle_sides();
  if (!changing.empty())
    take_out(changing);
  return std::move(program_);
}

}  // namespace sluice::detail
