#pragma once

// The arithmetic of one task of a random graph, the same on the host and in a kernel: order-sensitive, so that a task
// that runs too early, too late or beside another leaves different numbers.
#include <cstdint>

#if defined(__CUDACC__)
#define SLUICE_TEST_BOTH __host__ __device__
#else
#define SLUICE_TEST_BOTH
#endif

namespace sluice::test {

inline constexpr int k_step_accesses = 6;

enum class Touch : std::uint8_t { read, write, out, commute };

/// One task: which cells it touches, and how. `repeat` names the first cell a second time, to be read.
struct Step {
  std::uint32_t cell[k_step_accesses] = {};
  Touch touch[k_step_accesses] = {};
  std::uint8_t count = 0;
  bool repeat = false;
};

/// What stands behind one Var: a value, and how many tasks have written it. Plain words: the engine alone guards them.
struct Cell {
  std::uint64_t value = 0;
  std::uint64_t writers = 0;
};

/// What one task saw: a digest of the values it read, and the number of writers before it on each of its cells.
struct Seen {
  std::uint64_t digest = 0;
  std::uint64_t writers[k_step_accesses] = {};
};

/// One round of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
SLUICE_TEST_BOTH inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

SLUICE_TEST_BOTH inline void run_step(const Step& step, std::uint64_t task, Cell* cells, Seen& seen) {
  std::uint64_t digest = mix(task + 1);
  for (int i = 0; i < step.count; ++i) {
    const Cell& cell = cells[step.cell[i]];
    seen.writers[i] = cell.writers;
    if (step.touch[i] != Touch::out)
      digest = mix(digest ^ cell.value);
  }
  seen.digest = digest;
  for (int i = 0; i < step.count; ++i) {
    if (step.touch[i] == Touch::read)
      continue;
    Cell& cell = cells[step.cell[i]];
    cell.value = mix(digest + static_cast<std::uint64_t>(i));
    ++cell.writers;
  }
}

}  // namespace sluice::test
