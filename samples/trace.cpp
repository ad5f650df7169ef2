// Seeing what the engine does: a small pipeline is traced, and written for Perfetto, for Graphviz and as a picture.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <sluice/engine/api.h>

#include "samples/support/flags.h"
#include "samples/support/run_main.h"
#include "samples/support/safe_file.h"

namespace {

using namespace sluice;

constexpr std::size_t k_tiles = 3, k_tile = 1 << 14;

struct Frame {
  std::vector<double> samples = std::vector<double>(k_tiles * k_tile);
  std::array<Var, k_tiles> tiles;
  Var report;
  double median = 0;
  std::array<double, 8> power{};
};

void load(Frame& frame, int number) {
  for (std::size_t i = 0; i < frame.samples.size(); ++i)
    frame.samples[i] = 1 + std::sin(static_cast<double>(i + 1) * (number + 1));
}

void smooth(std::span<double> tile) {
  for (int pass = 0; pass < 24; ++pass) {
    for (std::size_t i = 1; i < tile.size(); ++i)
      tile[i] = (tile[i - 1] + 3 * tile[i]) / 4;
  }
}

double median(std::vector<double> samples) {
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// The power of one frequency (Goertzel's recurrence).
double power(const std::vector<double>& samples, double frequency) {
  double before = 0, last = 0;
  for (double sample : samples)
    before = std::exchange(last, sample + 2 * std::cos(frequency) * last - before);
  return last * last + before * before - 2 * std::cos(frequency) * last * before;
}

// One frame: read it, smooth its tiles side by side, then say what came out. Frames follow one another through the
// camera, and otherwise overlap. What reports a finished frame goes first, what is only nice to know goes last.
void push_frame(Engine& engine, const Var& camera, Frame& frame, int number, int damaged) {
  for (Var& tile : frame.tiles)
    tile = engine.new_var();
  frame.report = engine.new_var();
  AccessList whole, loaded{write(camera)};
  for (const Var& tile : frame.tiles) {
    whole.push_back(read(tile));
    loaded.push_back(out(tile));
  }
  AccessList reported = whole;
  reported.push_back(out(frame.report));

  engine.push({.name = "load", .access = loaded}, [&frame, number] { load(frame, number); });
  for (std::size_t i = 0; i < k_tiles; ++i) {
    engine.push({.name = "smooth", .access = {write(frame.tiles[i])}}, [&frame, number, damaged, i] {
      require(number != damaged || i != 1, [&] { return message("frame ", number, " is damaged"); });
      smooth(std::span(frame.samples).subspan(i * k_tile, k_tile));
    });
  }
  engine.push({.name = "report", .access = reported, .priority = Priority::high}, [&frame] {
    frame.median = median(frame.samples);
  });
  engine.push({.name = "spectrum", .access = whole, .priority = Priority::background}, [&frame] {
    for (std::size_t i = 0; i < frame.power.size(); ++i)
      frame.power[i] = power(frame.samples, 0.1 * static_cast<double>(i + 1));
  });
}

template <class Write>
void write_file(const std::filesystem::path& path, Write write) {
  std::ostringstream text;
  write(text);
  samples::write_text(path, text.str());
}

int run(int threads, int frame_count, const std::filesystem::path& folder) {
  samples::check_folder("--out", folder);
  Engine engine({.workers = threads});
  std::vector<Frame> frames(static_cast<std::size_t>(frame_count));
  const int damaged = frame_count > 1 ? 1 : -1;

  engine.start_trace();
  const Var camera = engine.new_var();
  for (int i = 0; i < frame_count; ++i)
    push_frame(engine, camera, frames[static_cast<std::size_t>(i)], i, damaged);
  for (int i = 0; i < frame_count; ++i) {
    Frame& frame = frames[static_cast<std::size_t>(i)];
    try {
      engine.wait(frame.report);
      fmt::print("frame {}: median {:.4f}\n", i, frame.median);
    } catch (const ValueError& error) {
      fmt::print("failure, as intended: {}\n", error.what());
    }
  }
  engine.wait_all();
  const Trace trace = engine.stop_trace();

  write_file(folder / "trace.json", [&](std::ostream& out) { trace.write_chrome(out); });
  write_file(folder / "trace.dot", [&](std::ostream& out) { trace.write_dot(out); });
  write_file(folder / "trace.svg", [&](std::ostream& out) { trace.write_svg(out); });
  fmt::print("{} tasks, {} dependencies, in {}\n", trace.events().size(), trace.edges().size(), folder.string());
  fmt::print("{}\n", to_string(engine.counters()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 2, frames = 3;
  std::string folder = "trace";
  samples::CommandLine command(
      "Traces a small pipeline and writes trace.json (Perfetto), trace.dot (Graphviz) and trace.svg.");
  command.add_option("--threads", threads, "CPU workers").check(samples::whole_within(1, 1024)).with_default();
  command.add_option("--frames", frames, "Frames; the second one is damaged")
      .check(samples::whole_within(1, 10000))
      .with_default();
  command.add_option("--out", folder, "Folder for the three files").check(samples::a_name()).with_default();
  return samples::run_main(command, argc, argv, [&] { return run(threads, frames, folder); });
}
