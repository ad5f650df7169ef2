// Tiled Cholesky factorisation: some thousand tasks, each one BLAS or LAPACK call on tiles, ordered by the tiles that
// they name. LAPACK's factorisation of the whole matrix, with as many threads, is the measure of result and time.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sluice/engine/api.h>

#include "samples/cholesky/factor.h"
#include "samples/support/run_main.h"

namespace {

using namespace sluice;
using samples::Matrix;

struct Settings {
  int size = 4000, tile = 256, workers = 0, repeats = 3;
  bool priority = false, indefinite = false;
  unsigned seed = 1;
};

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

int run(const Settings& settings) {
  Engine engine({.workers = settings.workers});
  const std::vector<double> original = random_matrix(settings);
  std::vector<double> tiled, whole;
  std::vector<double> tiled_seconds, whole_seconds;
  for (int i = 0; i < settings.repeats; ++i) {
    tiled = original;
    // OpenBLAS's own threads spin for a while after a call; then they would compete with the tasks.
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    samples::set_blas_threads(1);
    tiled_seconds.push_back(seconds_of([&] {
      samples::push_cholesky(engine, {tiled.data(), settings.size}, settings.tile, settings.priority);
      engine.wait_all();
    }));
    whole = original;
    samples::set_blas_threads(engine.workers());
    whole_seconds.push_back(seconds_of([&] { samples::whole_cholesky({whole.data(), settings.size}); }));
  }
  const auto n = static_cast<double>(settings.size);
  const double operations = n * n * n / 3;
  const double ours = median(tiled_seconds), theirs = median(whole_seconds);
  fmt::print(
      "matrix {0} x {0}, tiles {1} x {1}, {2} tasks, {3} worker(s){4}\n",
      settings.size,
      settings.tile,
      engine.counters().pushed / static_cast<unsigned>(settings.repeats),
      engine.workers(),
      settings.priority ? ", critical path first" : "");
  fmt::print("tiled  {:.4f} s, {:.1f} GFlop/s\n", ours, operations / ours * 1e-9);
  fmt::print("whole  {:.4f} s, {:.1f} GFlop/s (OpenBLAS dpotrf)\n", theirs, operations / theirs * 1e-9);
  fmt::print("speed-up over the whole matrix: {:.2f}\n", theirs / ours);
  const double apart = difference(tiled, whole, static_cast<std::size_t>(settings.size));
  fmt::print("largest difference: {:.2e} of the largest value\n", apart);
  require<Error>(apart < 1e-15 * n + 1e-13, [] { return "the tiled factor is not LAPACK's"; });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  CLI::App app("Cholesky factorisation in tiles (float64), beside LAPACK's of the whole matrix with as many threads.");
  app.add_option("--size", settings.size, "Rows and columns")->check(CLI::Range(1, 40000))->capture_default_str();
  app.add_option("--tile", settings.tile, "Rows and columns of a tile")
      ->check(CLI::Range(1, 40000))
      ->capture_default_str();
  app.add_option("--workers", settings.workers, "CPU workers (default: all)")->check(CLI::Range(1, 1024));
  app.add_option("--repeats", settings.repeats, "Runs of each; medians are printed")->check(CLI::Range(1, 1000));
  app.add_option("--seed", settings.seed, "Seed of the matrix");
  app.add_flag("--priority", settings.priority, "Tasks on the critical path go first");
  app.add_flag("--indefinite", settings.indefinite, "A matrix without a factor: shows where the failure surfaces");
  return samples::run_main(app, argc, argv, [&] { return run(settings); });
}
