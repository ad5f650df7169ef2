// Three programs that push their GPU tasks naively, and never name a stream or an event: what may overlap does, because
// of what the tasks read and write. Each is timed against the same work one task after the other.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/engine/api.h>

#include "samples/streams/program.h"
#include "samples/support/flags.h"
#include "samples/support/run_main.h"

namespace {

using namespace sluice;
using samples::Load;
using samples::Program;
using samples::Pusher;

constexpr int k_exit_skipped = 77;
constexpr auto k_programs = {samples::make_fork_join, samples::make_pipeline, samples::make_chains};

struct Settings {
  Device device = num_gpus() > 0 ? gpu(0) : cpu();
  Load load;
  int repeats = 5;
  std::filesystem::path trace;
};

double milliseconds(Program& program, const Pusher& pusher) {
  const auto start = std::chrono::steady_clock::now();
  program.push(pusher);
  pusher.engine().wait_all();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Runs one program both ways, in turns; throws if a result is wrong.
void compare(Engine& engine, const Settings& settings, std::unique_ptr<Program> (*make)(const Pusher&, const Load&)) {
  const Pusher free(engine, settings.device, false), bound(engine, settings.device, true);
  const std::unique_ptr<Program> side_by_side = make(free, settings.load), in_a_row = make(bound, settings.load);
  std::vector<double> free_times, bound_times;
  for (int i = -1; i < settings.repeats; ++i) {
    const double free_time = milliseconds(*side_by_side, free), bound_time = milliseconds(*in_a_row, bound);
    if (i < 0)  // warm-up
      continue;
    free_times.push_back(free_time);
    bound_times.push_back(bound_time);
  }
  const double ours = median(free_times), one = median(bound_times);
  fmt::print(
      "{:<10} {:9.3f} ms side by side, {:9.3f} ms one after the other: {:.2f} times as fast\n",
      side_by_side->name(),
      ours,
      one,
      one / ours);
  require<Error>(side_by_side->right(), [&] { return message(side_by_side->name(), ": a result is wrong"); });
  require<Error>(in_a_row->right(), [&] { return message(in_a_row->name(), ", one by one: a result is wrong"); });
}

/// One run of each program, written as a picture for a file called *.svg, otherwise for Perfetto.
void write_trace(Engine& engine, const Settings& settings) {
  const Pusher pusher(engine, settings.device, false);
  std::vector<std::unique_ptr<Program>> programs;
  for (auto* make : k_programs)
    programs.push_back(make(pusher, settings.load));
  engine.wait_all();
  engine.start_trace();
  for (const auto& program : programs) {
    program->push(pusher);
    engine.wait_all();
  }
  const Trace trace = engine.stop_trace();
  if (settings.trace.extension() == ".svg")
    trace.write_svg(settings.trace);
  else
    trace.write_chrome(settings.trace);
  fmt::print("{} tasks in {}\n", trace.events().size(), settings.trace.string());
}

int run(const Settings& settings) {
  if (num_gpus() == 0) {
    fmt::print("skipped: streams are a GPU's, and there is none\n");
    return k_exit_skipped;
  }
  require<DeviceError>(settings.device.is_gpu(), [] { return "streams are a GPU's: --device gpu or gpu:N"; });
  Engine engine;
  for (auto* make : k_programs)
    compare(engine, settings, make);
  if (!settings.trace.empty())
    write_trace(engine, settings);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  samples::CommandLine command(
      "A fork-join, a pipeline and 32 chains of GPU tasks, each beside the same work one after the other.");
  command.add_device_flag(settings.device);
  const auto option = [&](const char* name, int& value, const char* about) {
    command.add_option(name, value, about).check(samples::whole_within(1, 1 << 28)).with_default();
  };
  option("--repeats", settings.repeats, "Runs of each; medians are printed");
  option("--turns", settings.load.turns, "Length of a small kernel, in turns of its loop");
  option("--rounds", settings.load.rounds, "Rounds of the fork-join, and kernels of a chain");
  option("--batches", settings.load.batches, "Batches of the pipeline");
  option("--batch", settings.load.batch, "Words of a batch");
  command.add_option(
      "--trace", settings.trace, "Write what the engine did there: *.svg, or *.json for ui.perfetto.dev");
  return samples::run_main(command, argc, argv, [&] { return run(settings); });
}
