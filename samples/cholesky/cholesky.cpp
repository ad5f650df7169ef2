// Tiled Cholesky factorisation: some thousand tasks, each one BLAS or LAPACK call on tiles, ordered by the tiles that
// they name. The library's factorisation of the whole matrix, with as many threads, is the measure of result and time.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include <fmt/format.h>

#include <sluice/engine/api.h>

#include "samples/cholesky/place.h"
#include "samples/support/flags.h"
#include "samples/support/run_main.h"

namespace {

using namespace sluice;
using samples::Place;
using Settings = samples::CholeskySettings;

#ifdef SLUICE_GPU_LAPACK
constexpr bool k_with_gpu = true;
#else
constexpr bool k_with_gpu = false;
#endif

std::unique_ptr<Place> make_place(Engine& engine, const Settings& settings) {
#ifdef SLUICE_GPU_LAPACK
  if (settings.device.is_gpu())
    return samples::make_gpu_place(engine, settings);
#endif
  require<DeviceError>(settings.device.is_cpu(), [] { return "this build has no CUDA, cuBLAS or cuSOLVER"; });
  return samples::make_cpu_place(engine, settings);
}

// Random and symmetric, with a heavy diagonal; only the lower triangle is filled.
std::vector<double> random_matrix(const Settings& settings) {
  const auto n = static_cast<std::size_t>(settings.size);
  std::vector<double> values(n * n, 0.0);
  std::mt19937_64 random(settings.seed);
  std::uniform_real_distribution<double> uniform(-0.5, 0.5);
  for (std::size_t column = 0; column < n; ++column) {
    for (std::size_t row = column; row < n; ++row)
      values[column * n + row] = uniform(random) + (row == column ? static_cast<double>(n) : 0.0);
  }
  if (settings.indefinite)
    values[n * n - 1] = -1;
  return values;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// The largest difference in the lower triangle, as a share of the largest value there.
double difference(const std::vector<double>& a, const std::vector<double>& b, std::size_t n) {
  double most = 0, scale = 0;
  for (std::size_t column = 0; column < n; ++column) {
    for (std::size_t i = column * n + column; i < (column + 1) * n; ++i) {
      most = std::isfinite(a[i]) ? std::max(most, std::abs(a[i] - b[i])) : INFINITY;
      scale = std::max(scale, std::abs(b[i]));
    }
  }
  return most / scale;
}

int run(Settings settings) {
  if (settings.size == 0)
    settings.size = settings.device.is_gpu() ? 8192 : 4000;
  if (settings.tile == 0)
    settings.tile = settings.device.is_gpu() ? 1024 : 256;
  Engine engine({.workers = settings.workers});
  const std::unique_ptr<Place> place = make_place(engine, settings);
  const std::vector<double> original = random_matrix(settings);
  std::vector<double> tiled, whole;
  std::vector<double> tiled_seconds, whole_seconds;
  for (int i = 0; i < settings.repeats; ++i) {
    place->load(original);
    tiled_seconds.push_back(seconds_of([&] { place->factor_tiled(); }));
    tiled = place->result();
    place->load(original);
    whole_seconds.push_back(seconds_of([&] { place->factor_whole(); }));
    whole = place->result();
  }
  const auto n = static_cast<double>(settings.size);
  const double operations = n * n * n / 3;
  const double ours = median(tiled_seconds), theirs = median(whole_seconds);
  fmt::print(
      "matrix {0} x {0} on {5}, tiles {1} x {1}, {2} tasks, {3} worker(s){4}\n",
      settings.size,
      settings.tile,
      engine.counters().pushed / static_cast<unsigned>(settings.repeats),
      engine.workers(),
      settings.priority ? ", critical path first" : "",
      to_string(settings.device));
  fmt::print("tiled  {:.4f} s, {:.1f} GFlop/s\n", ours, operations / ours * 1e-9);
  fmt::print("whole  {:.4f} s, {:.1f} GFlop/s ({})\n", theirs, operations / theirs * 1e-9, place->library());
  fmt::print("speed-up over the whole matrix: {:.2f}\n", theirs / ours);
  const double apart = difference(tiled, whole, static_cast<std::size_t>(settings.size));
  fmt::print("largest difference: {:.2e} of the largest value\n", apart);
  require<Error>(apart < 1e-15 * n + 1e-13, [] { return "the tiled factor is not the library's"; });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings{.device = k_with_gpu && num_gpus() > 0 ? gpu(0) : cpu()};
  samples::CommandLine command(
      "Cholesky factorisation in tiles (float64), beside LAPACK's or cuSOLVER's of the whole matrix.");
  command.add_device_flag(settings.device);
  command.add_option("--size", settings.size, "Rows and columns (default: 4000, on a GPU 8192)")
      .check(samples::whole_within(1, 40000));
  command.add_option("--tile", settings.tile, "Rows and columns of a tile (default: 256, on a GPU 1024)")
      .check(samples::whole_within(1, 40000));
  command.add_option("--rows", settings.rows, "On a GPU: tiles that one product works on (default: a whole column)")
      .check(samples::whole_within(0, 40000));
  command.add_option("--workers", settings.workers, "CPU workers (default: all)").check(samples::whole_within(1, 1024));
  command.add_option("--repeats", settings.repeats, "Runs of each; medians are printed")
      .check(samples::whole_within(1, 1000));
  command.add_option("--seed", settings.seed, "Seed of the matrix");
  command.add_flag("--priority", settings.priority, "Tasks on the critical path go first");
  command.add_flag("--indefinite", settings.indefinite, "A matrix without a factor: shows where the failure surfaces");
  return samples::run_main(command, argc, argv, [&] { return run(settings); });
}
