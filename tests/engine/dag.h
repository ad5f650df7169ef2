#pragma once

// Random task graphs and their judge.
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/engine/dag_step.h"

namespace sluice::test {

/// Tasks for some cells. With several pushers, each pushes one contiguous part of the steps.
struct Program {
  std::uint32_t cells = 0;
  int pushers = 1;
  std::vector<Step> steps;

  std::size_t begin_of(int pusher) const { return steps.size() * static_cast<std::size_t>(pusher) / pushers; }
};

/// Steps with 1 to 4 accesses: half of them read, a third write, the rest out; one in sixteen names a cell twice.
Program random_program(std::uint64_t seed, std::size_t steps, std::uint32_t cells, int pushers);

/// The same with runs of steps that commute on some cells, one of them or several at a time; the other cells are read
/// or written meanwhile.
Program commuting_program(std::uint64_t seed, std::size_t steps, std::uint32_t cells, int pushers);

/// What a run left behind.
struct History {
  explicit History(const Program& program) : cells(program.cells), seen(program.steps.size()) {}
  std::vector<Cell> cells;
  std::vector<Seen> seen;
};

/// The accesses of a step on its Vars.
AccessList access_of(const Step& step, const std::vector<Var>& vars);

/// Calls push(task number) for every step, each pusher's part on a thread of its own (one pusher: on this thread).
template <class Push>
void from_pushers(const Program& program, Push push) {
  auto part = [&](int pusher) {
    for (std::size_t i = program.begin_of(pusher); i < program.begin_of(pusher + 1); ++i)
      push(i);
  };
  if (program.pushers == 1)
    return part(0);
  std::vector<std::thread> threads;
  for (int pusher = 0; pusher < program.pushers; ++pusher)
    threads.emplace_back(part, pusher);
  for (std::thread& thread : threads)
    thread.join();
}

/// Compares with a plain loop over the steps. Empty if equal, otherwise what differs. One pusher only.
std::string differs_from_serial(const Program& program, const History& history);

/// Judges a history of any number of pushers: reads share and writes exclude on every cell, each pusher's own order
/// is kept except among neighbours that commute, and the tasks replayed one by one in some order that agrees with every
/// cell give the same numbers. Empty if so, otherwise what is wrong.
std::string not_serialisable(const Program& program, const History& history);

}  // namespace sluice::test
