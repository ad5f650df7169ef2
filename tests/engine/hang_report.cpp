// What a test that hangs prints of the engine: every Var that is in use, and who stands in its lists (T13). Looked at
// without the engine's leave, which may be what hangs: a line may be wrong where somebody still moves.
#include "tests/support/hang_report.h"

#include <cstdio>
#include <mutex>

#include <sluice/engine/detail/core.h>

namespace sluice::test {

namespace {

using detail::AccessNode;
using detail::TaskNode;
using detail::VarCore;
using detail::VarMode;

constexpr int k_most_vars = 20, k_most_listed = 4;

const char* name_of(VarMode mode) {
  switch (mode) {
    case VarMode::idle:
      return "idle";
    case VarMode::reading_open:
      return "read";
    case VarMode::reading_closed:
      return "read, and somebody waits";
    default:
      return "written";
  }
}

void print_task(const char* what, const TaskNode& task) {
  const SourceLocation site = task.site();
  std::fprintf(stderr, "    %s \"%s\" (%s:%d)\n", what, task.name, site.file == nullptr ? "?" : site.file, site.line);
}

void print_list(const AccessNode* access) {
  for (int listed = 0; access != nullptr; access = access->next) {
    if (++listed > k_most_listed)
      return static_cast<void>(std::fprintf(stderr, "    and more\n"));
    print_task(access->exclusive() ? "waits to write:" : "waits to read:", *access->task());
  }
}

void print_holder(std::uint64_t tag) {
  std::uint32_t state = 0;
  const TaskNode* const holder = detail::Core::task_of(tag, state);
  if (holder != nullptr && (state & TaskNode::k_finished) == 0)
    print_task((state & TaskNode::k_started) != 0 ? "held by" : "is for", *holder);
}

void print_vars() {
  int vars = 0;
  const bool seen = detail::NodePool<VarCore, &VarCore::next_free>::visit([&](VarCore& var) {
    const VarMode mode = var.mode.load();
    const bool at_rest = mode == VarMode::idle || (mode == VarMode::reading_open && var.readers.load() == 0);
    if (at_rest || ++vars > k_most_vars)
      return;
    const bool locked = !var.lock.try_lock();
    std::fprintf(
        stderr,
        "Var %llu of engine %p: %s, %d readers%s\n",
        static_cast<unsigned long long>(var.id),
        static_cast<void*>(var.core),
        name_of(mode),
        var.readers.load(),
        locked ? ", locked" : "");
    if (locked)
      return;
    if (mode == VarMode::writing) {
      print_holder(var.first_holder.load());
      print_holder(var.next_holder.load());
    }
    print_list(var.run);
    print_list(var.inbox_head);
    var.lock.unlock();
  });
  if (!seen)
    std::fprintf(stderr, "Vars: the list of all is locked\n");
  else
    std::fprintf(stderr, "Vars in use: %d\n", vars);
}

const bool registered = [] {
  hang_report = &print_vars;
  return true;
}();

}  // namespace

}  // namespace sluice::test
