#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include <sluice/engine/api.h>

#include "tests/bench/support/bench.h"
#include "tests/bench/support/patterns.h"

namespace sluice::bench {

/// One pattern's data, and the Vars that stand for them. Each pusher has its own.
struct Board {
  Board(Engine& engine, const Pattern& pattern) : items(pattern.items, 1) {
    for (int i = 0; i < pattern.items; ++i)
      vars.push_back(engine.new_var());
  }
  std::vector<std::uint64_t> items;
  std::vector<Var> vars;
};

/// Pushes steps [begin, end) of the pattern; the body spins `spin` turns. Does not wait.
inline void push_steps(
    Engine& engine, const Pattern& pattern, Board& board, int spin, std::size_t begin, std::size_t end) {
  std::uint64_t* items = board.items.data();
  for (std::size_t i = begin; i < end; ++i) {
    const Step& step = pattern.steps[i];
    Task task{.name = "step", .access = {write(board.vars[step.target])}};
    for (int source : step.sources)
      task.access.push_back(read(board.vars[source]));
    engine.push(task, [&step, items, spin] { run_step(step, items, spin); });
  }
}

/// Times push(boards) and all that it starts, on fresh boards for so many pushers, which are left in `boards`.
template <class Push>
Timing time_on_boards(
    const Report& report, Engine& engine, const Pattern& pattern, int pushers, std::deque<Board>& boards, Push push) {
  return report.time(
      1,
      1,
      [&] {
        boards.clear();
        for (int i = 0; i < pushers; ++i)
          boards.emplace_back(engine, pattern);
        push(boards);
      },
      [&] { engine.wait_all(); });
}

/// Every board holds what a serial run of the pattern gives.
inline void expect_serial(
    Report& report, const Pattern& pattern, const std::deque<Board>& boards, const std::string& what) {
  const std::uint64_t expected = serial_checksum(pattern);
  for (const Board& board : boards)
    report.expect(checksum(board.items) == expected, what);
}

/// Pushes every step of the pattern.
inline void push_all(Engine& engine, const Pattern& pattern, Board& board, int spin) {
  push_steps(engine, pattern, board, spin, 0, pattern.steps.size());
}

}  // namespace sluice::bench
