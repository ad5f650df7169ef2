// Tries to break the engine: random programs from several threads, with pushes and waits inside tasks, coroutines,
// bodies that throw, cancellations, priorities, frozen Vars, forks and backlogs, each compared with what a serial run
// of the same program must give. With --device gpu most tasks are kernels and copies, of one GPU or of two, launched
// alone or in batches, beside regions and streams that the engine does not know. Exit code 0: everything agreed, 130
// after Ctrl-C. 1: it did not; the last line says how to run the same program again. The program and its serial result
// depend on the seed alone, the timing of the threads does not: a failure may need several rounds.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <thread>

#include <fmt/format.h>

#include <sluice/engine/api.h>

#include "samples/stress/judge.h"
#include "samples/stress/plan.h"
#include "samples/stress/run.h"
#include "samples/support/flags.h"
#include "samples/support/interrupt.h"
#include "samples/support/run_main.h"
#include "samples/support/terminal.h"

namespace {

using namespace sluice;
using namespace samples;
using namespace samples::stress;

struct Flags {
  double seconds = 10;
  int rounds = 0, threads = 0, workers = 0, steps = 100, patience = 120;
  std::uint64_t seed = 0;
  std::string policy = "pool", plant, launch;
  std::string device = "cpu";

  int gpus() const { return device == "gpu" ? std::min(num_gpus(), 2) : 0; }
};

/// How far it is: on a terminal a line that is redrawn, otherwise one every ten seconds.
class Meter {
 public:
  explicit Meter(const Flags& flags) : flags_(flags) {}

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void show(int programs, std::uint64_t seed) {
    const std::size_t room = line_room();
    const double now = seconds();
    if (now - shown_ < (room > 0 ? k_redraw : k_log))
      return;
    shown_ = now;
    const std::string line =
        fit({{1, fmt::format("{} programs", programs), fmt::format("{}", programs)},
             {3, fmt::format("{:.1f}/s", programs / now)},
             {0, fmt::format("seed {}", seed)},
             {2,
              flags_.rounds > 0 ? fmt::format("of {}, {}", flags_.rounds, clock_text(now))
                                : clock_text(now) + " of " + clock_text(flags_.seconds)}},
            room > 0 ? room : 200);
    fmt::print("{}{}", room > 0 ? "\r" : "", line + (room > 0 ? "\033[K" : "\n"));
    std::fflush(stdout);
  }
  /// Removes the line, for other output.
  static void clear() {
    if (line_room() > 0)
      fmt::print("\r\033[K");
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr double k_redraw = 0.1, k_log = 10;
  const Flags& flags_;
  Clock::time_point start_ = Clock::now();
  double shown_ = 0;
};

std::string replay(const Flags& flags, std::uint64_t seed) {
  std::string line = fmt::format(
      "stress --seed {} --rounds 1 --threads {} --workers {} --policy {} --steps {}",
      seed,
      flags.threads,
      flags.workers,
      flags.policy,
      flags.steps);
  if (flags.device != "cpu")
    line += " --device " + flags.device;
  if (!flags.launch.empty())
    line += " --launch " + flags.launch;
  return flags.plant.empty() ? line : line + " --plant " + flags.plant;
}

[[nodiscard]] int report_failure(const Flags& flags, std::uint64_t seed, const std::string& fault) {
  Meter::clear();
  fmt::print("FAILED with seed {}: {}\nreplay: {}\n", seed, fault, replay(flags, seed));
  std::fflush(stdout);
  return 1;
}

/// Ends the process when no body runs for long: a program that hangs reports its seed too.
class Watchdog {
 public:
  explicit Watchdog(const Flags& flags) : flags_(flags), thread_([this] { watch(); }) {}
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog() {
    {
      const std::lock_guard hold(mutex_);
      over_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }
  std::atomic<std::uint64_t> seed{0};

 private:
  void watch() {
    std::unique_lock hold(mutex_);
    for (std::uint64_t last = ~std::uint64_t{0}; !over_;) {
      const std::uint64_t now = bodies_run().load() + seed.load();
      if (now == last)
        std::_Exit(report_failure(
            flags_, seed.load(), fmt::format("no task has run for {} s: the engine hangs", flags_.patience)));
      last = now;
      wake_.wait_for(hold, std::chrono::seconds(flags_.patience), [this] { return over_; });
    }
  }

  const Flags& flags_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool over_ = false;
  std::thread thread_;
};

Plant plant_of(const std::string& name) {
  return name == "access" ? Plant::access : name == "error" ? Plant::error : Plant::none;
}

/// One program. Empty if all went as it must.
std::string run_round(const Flags& flags, std::uint64_t seed, Tally& all) {
  const CpuMode policy = parse_cpu_mode(flags.policy);
  const Plan plan = make_plan(
      suited_to(policy, {.seed = seed, .threads = flags.threads, .steps = flags.steps, .gpus = flags.gpus()}));
  std::optional<Engine> engine;
  engine.emplace(EngineOptions{
      .workers = flags.workers,
      .cpu_policy = policy,
      .launch = flags.launch.empty() ? std::nullopt : std::optional(parse_launch_mode(flags.launch)),
      .chaos_seed = seed,
      .seed = seed,
  });
  Run run(plan, *engine, plant_of(flags.plant));
  run.execute();
  if (seed % 2 == 0)
    engine.reset();  // Vars and handles may outlive their engine
  std::string fault = run.fault();
  Tally tally;
  if (fault.empty())
    fault = judge_outcomes(run, tally);
  all.add(tally);
  return fault.empty() ? judge_values(run) : fault;
}

void sum_up(int rounds, double seconds, const Tally& tally) {
  say(fmt::format(
      "{} rounds in {}, {} tasks: {} ran ({} of them threw), {} were skipped ({} of them cancelled); {} waits; all as "
      "in "
      "a serial run",
      rounds,
      clock_text(seconds),
      tally.tasks,
      tally.ran,
      tally.failed,
      tally.skipped,
      tally.cancelled,
      tally.waits));
}

int run_programs(Flags flags) {
  if (flags.threads == 0)
    flags.threads = Engine({.workers = flags.workers}).workers() + 1;
  require<DeviceError>(
      flags.device == "cpu" || num_gpus() > 0, [] { return std::string("--device gpu: there is no GPU here"); });
  say(fmt::format(
      "first seed {}, {} pushing thread(s), policy {}, {} GPU(s)",
      flags.seed,
      flags.threads,
      flags.policy,
      flags.gpus()));
  catch_interrupts();
  Watchdog watchdog(flags);
  Meter meter(flags);
  Tally tally;
  int rounds = 0;
  while (!interrupted() &&
         (flags.rounds > 0 ? rounds < flags.rounds : meter.seconds() < flags.seconds || rounds == 0)) {
    const std::uint64_t seed = flags.seed + static_cast<std::uint64_t>(rounds);
    watchdog.seed = seed;
    if (const std::string fault = run_round(flags, seed, tally); !fault.empty())
      return report_failure(flags, seed, fault);
    meter.show(++rounds, seed);
  }
  Meter::clear();
  sum_up(rounds, meter.seconds(), tally);
  if (!interrupted())
    return 0;
  say(fmt::format("interrupted; --seed {} goes on", flags.seed + static_cast<std::uint64_t>(rounds)));
  return interrupt_code();
}

}  // namespace

int main(int argc, char** argv) {
  Flags flags;
  flags.seed = std::random_device{}();
  samples::CommandLine command(
      "Random programs on the engine, from many threads, compared with what a serial run gives.");
  command.add_option("--seconds", flags.seconds, "How long").check(finite_within({.high = 1e9})).with_default();
  command.add_option("--rounds", flags.rounds, "So many programs instead").check(samples::whole_within(0, 1000000000));
  command.add_option("--threads", flags.threads, "Pushing threads (default: workers + 1)")
      .check(samples::whole_within(1, 256));
  command.add_option("--seed", flags.seed, "Seed of the first program; the next ones count up (default: random)")
      .check(whole_number());
  command.add_option("--workers", flags.workers, "CPU workers (0 = all)").check(samples::whole_within(0, 1024));
  command.add_option("--policy", flags.policy, "The engine's CPU policy: pool, serial, chaos or chaos-pool")
      .with_default();
  command.add_option("--device", flags.device, "cpu, or gpu: most tasks on the first GPU, or the first two")
      .one_of({"cpu", "gpu"})
      .with_default();
  command
      .add_option("--launch", flags.launch, "The engine's way to launch GPU tasks: batch or direct (default: its own)")
      .one_of({"batch", "direct"});
  command.add_option("--steps", flags.steps, "Steps of a thread in a phase, about")
      .check(samples::whole_within(1, 100000));
  command.add_option("--patience", flags.patience, "Seconds without a task before a hang is declared")
      .check(samples::whole_within(1, 100000));
  command.add_option("--plant", flags.plant, "Make a mistake on purpose, which must be found: access or error")
      .one_of({"access", "error"});
  return samples::run_main(command, argc, argv, [&] { return run_programs(flags); });
}
