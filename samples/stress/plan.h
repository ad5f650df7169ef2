#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include <sluice/engine/options.h>
#include <sluice/engine/task.h>

#include "samples/stress/work.h"

// What a round does, drawn from a seed before anything runs. Cells are plain numbers, each behind a Var; with GPUs some
// lie in the memory of one, which only tasks of that GPU and copies touch.
//
// Shared cells are used by all threads at once; who comes first is seen in what the bodies wrote down. All other cells
// have an order that the plan fixes: the cells of a group belong to one pushing thread in each phase, the cells of a
// nest to the bodies of one task's children. Failures live on those cells only, so that the plan and the answers of
// cancel() tell exactly which tasks must run.
namespace samples::stress {

struct Use {
  std::uint32_t cell = 0;
  Touch touch = Touch::read;
};

/// How a body ends: well, with an Error, with another exception, or with something that is no exception at all.
enum class Fault : std::uint8_t { none, error, foreign, number };

enum class Act : std::uint8_t {
  push,         // target: a task
  cancel,       // target: a task pushed just before
  wait_read,    // target: a cell
  wait_write,   // target: a cell
  wait_task,    // target: a task pushed before
  clear,        // target: a cell, made clean
  open,         // target: a gate task that may end now
  freeze,       // target: a cell, only read from here on
  unfreeze,     // target: a cell
  refused,      // target: a frozen cell; a push that would write it is refused
  fork,         // a child process uses the engine and ends
  fork_inside,  // of a body: the child's pushes are refused
};

/// Something that a pushing thread or a body does. `slot` is where a wait writes down what it saw.
struct Step {
  Act act = Act::push;
  std::uint32_t target = 0;
  std::uint32_t slot = 0;
};

/// How a task comes about. plain: by a push of a body. coroutine: the body awaits what it waits for. region: as a run
/// of a region. foreign: its work is launched on a stream of the pushing thread's own, between an export and an import.
enum class Form : std::uint8_t { plain, coroutine, region, foreign };

struct TaskPlan {
  std::uint32_t number = 0;
  std::vector<Use> uses;
  std::vector<Step> inside;         // what the body does between reading and writing
  std::vector<std::uint32_t> nest;  // cells of its children
  sluice::Priority priority = sluice::Priority::normal;
  Fault fault = Fault::none;
  bool runs_on_failed_input = false;
  bool names_twice = false;  // names its first Var a second time
  bool big = false;          // a body too big to live in place
  bool gate = false;         // waits until its step `open`
  bool cancelled = false;    // somebody will try
  int spin = 0;
  Form form = Form::plain;

  // Of tasks on a GPU; their bodies have steps inside only if not capturable
  int gpu = -1;  // -1: on the CPU
  sluice::StreamKind stream = sluice::StreamKind::compute;
  bool capturable = false;
  bool legacy = false;       // enqueues on the legacy stream
  bool copies = false;       // copies its first cell to its second
  bool throws_late = false;  // of one that fails: it has enqueued its work by then
  std::uint32_t region = 0;  // of a region: which one, and which of its programs
  std::uint32_t program = 0;

  /// No body, no kernel: it throws before.
  bool leaves_nothing() const noexcept { return gpu >= 0 && fault != Fault::none && !throws_late; }
};

/// One of the tasks of a region: cell `from` into cell `to`, both named by their place in the task's uses.
struct Combine {
  std::uint8_t to = 0, from = 0;
};

/// Belongs to one thread, which runs its programs again and again. It uses shared cells.
struct RegionPlan {
  int gpu = 0;
  struct Program {
    std::vector<Use> uses;
    std::vector<Combine> tasks;
  };
  std::vector<Program> programs = {};
  std::vector<std::uint32_t> runs = {};  // the tasks that are its runs, in order
};

using Script = std::vector<Step>;

struct Phase {
  std::vector<Script> scripts;  // one a thread
  bool quiet = false;           // ends with wait_all, and with some failures forgiven
};

struct Plan {
  std::uint32_t shared = 0;  // cells [0, shared) are shared
  std::uint32_t cells = 0;
  std::uint32_t slots = 0;
  std::vector<int> homes;  // of the cells: a GPU, or -1 for the host
  std::vector<RegionPlan> regions;
  std::deque<TaskPlan> tasks;
  std::vector<Phase> phases;
};

struct Shape {
  std::uint64_t seed = 1;
  int threads = 2;
  int steps = 100;                // of a thread in a phase, about
  bool gates = true;              // tasks that hold up all others until everything is pushed
  bool waits_for_earlier = true;  // bodies that wait for tasks pushed before them
  bool forks = true;
  int gpus = 0;
};

/// What such an engine can run: the serial policy runs bodies inside push, so nobody is left to open a gate, and a body
/// that waits keeps those below it on its stack from ending.
inline Shape suited_to(sluice::CpuMode policy, Shape shape) {
  shape.gates = shape.waits_for_earlier = shape.forks =
      policy != sluice::CpuMode::serial && policy != sluice::CpuMode::chaos;
  return shape;
}

/// The same shape gives the same plan.
Plan make_plan(const Shape& shape);

}  // namespace samples::stress
