#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "samples/stress/run.h"

namespace samples::stress {

/// Counts of one round, or of many.
struct Tally {
  std::uint64_t tasks = 0, ran = 0, failed = 0, skipped = 0, cancelled = 0, waits = 0;

  void add(const Tally& other) {
    tasks += other.tasks;
    ran += other.ran;
    failed += other.failed;
    skipped += other.skipped;
    cancelled += other.cancelled;
    waits += other.waits;
  }
};

/// Follows the plan in the order of its pushes, as a serial program would run it, and compares: which bodies ran, which
/// had to be skipped and because of whom, what each wait reported, how often each cell was written before each access.
/// Shared cells: no task overtakes an earlier one of its pusher. Empty if all is right, otherwise what is wrong.
std::string judge_outcomes(const Run& run, Tally& tally);

/// Looks for one order of all bodies that agrees with the order seen on every cell, runs the plan's arithmetic in it,
/// and compares what every body and every wait read, and what the cells hold at the end. Empty if all is right.
std::string judge_values(const Run& run);

}  // namespace samples::stress
