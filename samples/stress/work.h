#pragma once

// The arithmetic of the tasks, the same on the host and in a kernel: it depends on the order of what is read, so that a
// task that runs too early, too late or beside another leaves different numbers.
#include <cstdint>

#if defined(__CUDACC__)
#define SLUICE_STRESS_BOTH __host__ __device__
#else
#define SLUICE_STRESS_BOTH
#endif

namespace samples::stress {

enum class Touch : std::uint8_t { read, write, out };

/// What stands behind a Var: a value, and how many tasks have written it. Plain words: the engine alone guards them.
struct Content {
  std::uint64_t value = 0;
  std::uint64_t writers = 0;
};

/// What a kernel touches at most.
inline constexpr int k_uses = 4;

/// What a kernel wrote down: how often it ran, what it read, how many had written each of its cells before.
struct GpuLog {
  std::uint64_t runs = 0;
  std::uint64_t digest = 0;
  std::uint64_t before[k_uses] = {};
};

/// step: a task. copied: a task whose value a copy brings. The others are the tasks of a region. open: the first, which
/// sees all cells. combine: in between, cell 1 into cell 0. close: the last, which counts the writers.
enum class WorkKind : std::uint8_t { step, copied, open, combine, close };

/// What one kernel does. A cell that is null cannot be reached from there.
struct Work {
  WorkKind kind = WorkKind::step;
  std::uint8_t count = 0;
  bool fails = false;  // its task will be declared failed
  std::uint32_t spin = 0;
  std::uint64_t number = 0;
  Content* cell[k_uses] = {};
  Touch touch[k_uses] = {};
  GpuLog* log = nullptr;          // in a region: of all its runs, one after the other
  std::uint64_t* turn = nullptr;  // in a region: how often it ran
};

/// One round of splitmix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
SLUICE_STRESS_BOTH inline std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

/// What a task makes of the values that it reads, one after the other.
SLUICE_STRESS_BOTH inline std::uint64_t first_digest(std::uint64_t number) {
  return mix(number + 1);
}
SLUICE_STRESS_BOTH inline std::uint64_t next_digest(std::uint64_t digest, std::uint64_t value) {
  return mix(digest ^ value);
}
/// What it leaves in its cell `k`.
SLUICE_STRESS_BOTH inline std::uint64_t left_value(std::uint64_t digest, bool fails, std::uint64_t k) {
  return mix((fails ? ~digest : digest) + k);
}
/// What a region's task in between leaves.
SLUICE_STRESS_BOTH inline std::uint64_t combined(std::uint64_t to, std::uint64_t from, std::uint64_t number) {
  return mix(to ^ mix(from + number));
}

SLUICE_STRESS_BOTH inline void write_down(const Work& work, GpuLog& log) {
  std::uint64_t digest = first_digest(work.number);
  for (int i = 0; i < work.count; ++i) {
    if (work.cell[i] == nullptr)
      continue;
    log.before[i] = work.cell[i]->writers;
    if (work.touch[i] != Touch::out)
      digest = next_digest(digest, work.cell[i]->value);
  }
  log.digest = digest;
  ++log.runs;
}

SLUICE_STRESS_BOTH inline void count_writers(const Work& work) {
  for (int i = 0; i < work.count; ++i) {
    if (work.touch[i] != Touch::read && work.cell[i] != nullptr)
      ++work.cell[i]->writers;
  }
}

/// One kernel.
SLUICE_STRESS_BOTH inline void run_work(const Work& work) {
  std::uint64_t idle = work.number;
  for (std::uint32_t i = 0; i < work.spin; ++i)
    idle = mix(idle);
  if (work.kind == WorkKind::combine) {
    work.cell[0]->value = combined(work.cell[0]->value, work.cell[1]->value, work.number);
    return;
  }
  if (work.kind == WorkKind::close) {
    count_writers(work);
    ++*work.turn;
    return;
  }
  GpuLog& log = work.kind == WorkKind::open ? work.log[*work.turn] : *work.log;
  write_down(work, log);
  if (work.kind == WorkKind::open)
    return;
  if (work.kind == WorkKind::copied)
    log.digest = work.cell[0] != nullptr ? work.cell[0]->value : log.digest;
  for (int i = 0; work.kind == WorkKind::step && i < work.count; ++i) {
    if (work.touch[i] != Touch::read)
      work.cell[i]->value = left_value(log.digest, work.fails, static_cast<std::uint64_t>(i));
  }
  count_writers(work);
  if (idle == 0x5eed)  // else a compiler would leave the idling out
    ++log.runs;
}

}  // namespace samples::stress
