// Tiled Cholesky factorisation (float64) on one GPU, each tile's work a task, beside cuSOLVER on the whole matrix in
// the same run. The result is multiplied out and compared with the matrix, on random vectors.
#include <cmath>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "samples/cholesky/factor_cuda.h"
#include "samples/cholesky/library_cuda.h"
#include "tests/bench/support/gpu_cuda.h"
#include "tests/bench/support/gpu_kernels.h"
#include "tests/bench/support/rounds.h"

namespace {

using namespace sluice;
using bench::Contender;
using bench::GpuArray;
using samples::check;

struct Settings {
  std::vector<int> sizes{8192, 16384, 32768}, tiles{512, 1024}, rows{1, 4, 0};
  bool no_priority = false;
};

/// The relative difference of A x and L (L' x), the worst of some random x.
class Residual {
 public:
  Residual(const samples::GpuMatrix& original, int n)
      : n_(n), original_(original.data()), x_(size()), ax_(size()), llx_(size()) {
    cublasSetPointerMode(blas_.handle(), CUBLAS_POINTER_MODE_HOST);
  }

  double of(const double* factor) {
    double worst = 0;
    for (unsigned seed = 1; seed <= 3; ++seed) {
      fill(seed);
      const double one = 1, zero = 0, minus_one = -1;
      cublasHandle_t handle = blas_.handle();
      const auto lower = CUBLAS_FILL_MODE_LOWER;
      check(cublasDsymv(handle, lower, n_, &one, original_, n_, x_.data(), 1, &zero, ax_.data(), 1), "cublasDsymv");
      check(cublasDcopy(handle, n_, x_.data(), 1, llx_.data(), 1), "cublasDcopy");
      for (cublasOperation_t operation : {CUBLAS_OP_T, CUBLAS_OP_N}) {
        check(
            cublasDtrmv(handle, lower, operation, CUBLAS_DIAG_NON_UNIT, n_, factor, n_, llx_.data(), 1), "cublasDtrmv");
      }
      double norm = 0, difference = 0;
      check(cublasDnrm2(handle, n_, ax_.data(), 1, &norm), "cublasDnrm2");
      check(cublasDaxpy(handle, n_, &minus_one, ax_.data(), 1, llx_.data(), 1), "cublasDaxpy");
      check(cublasDnrm2(handle, n_, llx_.data(), 1, &difference), "cublasDnrm2");
      const double share = difference / norm;
      worst = std::isfinite(share) ? std::max(worst, share) : INFINITY;
    }
    return worst;
  }

 private:
  std::size_t size() const { return static_cast<std::size_t>(n_); }
  void fill(unsigned seed) {
    std::vector<double> values(size());
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    for (double& value : values)
      value = normal(random);
    x_.assign(values);
  }

  int n_;
  const double* original_;
  bench::StreamOwner stream_ = bench::new_stream();
  samples::Blas blas_{stream_.get()};
  GpuArray<double> x_, ax_, llx_;
};

/// One way of tiling on an engine of its own.
struct Tiled {
  static std::string name(const samples::Tiling& tiling) {
    return message("engine-tile-", tiling.tile, "-rows-", tiling.rows, tiling.priority ? "" : "-no-priority");
  }

  std::string variant;
  Engine engine;
  samples::GpuCholesky factor;
  int tasks = 0;

  Tiled(LaunchMode launch, Device device, int n, const samples::Tiling& tiling)
      : variant(name(tiling)), engine(bench::launched(launch)), factor(engine, device, n, tiling) {}
};

/// Sizes of which all fits: three matrices and some scratch memory.
bool fits(bench::Report& report, int n) {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  const double needed = 3.2 * 8.0 * n * n;
  if (needed < static_cast<double>(free))
    return true;
  report.expect(false, message("matrix of ", n, " rows: the GPU has too little free memory"));
  return false;
}

void factor(bench::Report& report, const bench::GpuBench& bench, const Settings& settings, int n) {
  const std::string workload = message("cholesky-", n);
  std::vector<samples::Tiling> tilings;
  for (int tile : settings.tiles) {
    for (int rows : settings.rows)
      tilings.push_back({tile, rows, !settings.no_priority});
  }
  std::erase_if(tilings, [&](const samples::Tiling& one) { return !report.wants(workload, Tiled::name(one)); });
  if ((tilings.empty() && !report.wants(workload, "cusolver-whole")) || !fits(report, n))
    return;
  const samples::GpuMatrix original(bench.device(), n), work(bench.device(), n);
  const auto refill = [&](const samples::GpuMatrix& matrix) {
    bench::launch_fill_symmetric(nullptr, matrix.data(), n);
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  };
  refill(original);
  Residual residual(original, n);
  samples::WholeGpuCholesky whole(bench.device(), n);
  std::deque<Tiled> ways;
  std::vector<Contender> contenders{
      {"cusolver-whole", [&] { whole.start(work.data()); }, [&] { whole.wait(); }, [&] { refill(work); }}};
  for (const samples::Tiling& tiling : tilings) {
    // Its tasks are not capturable, so that the way of launching hardly matters.
    Tiled& way = ways.emplace_back(bench.launches().back(), bench.device(), n, tiling);
    contenders.push_back(
        {way.variant,
         [&] { way.tasks = way.factor.push(work.data()); },
         [&] { way.engine.wait_all(); },
         [&] { refill(work); }});
  }
  std::erase_if(contenders, [&](const Contender& one) { return !report.wants(workload, one.variant); });
  const auto walls = bench::compare(report, workload, 1, "factor", contenders);
  const double operations = std::pow(static_cast<double>(n), 3) / 3;
  for (const auto& [variant, wall] : walls) {
    report.add(workload, variant, "rate", operations / wall * 1e-6, "TFLOP/s");
    if (walls.contains("cusolver-whole"))
      report.add(workload, variant, "of-cusolver-time", wall / walls.at("cusolver-whole") * 100, "%");
  }
  for (const Contender& one : contenders) {
    one.prepare();
    one.push();
    one.finish();
    const double share = residual.of(work.data());
    report.add(workload, one.variant, "residual", share * 1e16, "e-16");
    report.expect(share < 1e-13, workload + " " + one.variant);
  }
  for (const Tiled& way : ways) {
    if (way.tasks > 0)
      report.add(workload, way.variant, "tasks", way.tasks, "tasks");
  }
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report(
      "bench_cholesky", "Tiled Cholesky factorisation on one GPU, beside cuSOLVER's of the whole matrix");
  bench::GpuBench gpu_bench(report);
  Settings settings;
  report.flag("--sizes", settings.sizes, "Rows of the matrices").range(2, 60000);
  report.flag("--tiles", settings.tiles, "Rows of a tile").range(1, 60000);
  report.flag("--rows", settings.rows, "Tiles of a column that one task works on; 0 = all").range(0, 60000);
  report.flag("--no-priority", settings.no_priority, "All tasks are equally urgent");
  if (!report.parse(argc, argv))
    return report.exit_code();
  if (!gpu_bench.begin())
    return gpu_bench.exit_code();
  if (report.options().smoke)
    settings = {.sizes = {200}, .tiles = {64}, .rows = {1, 2, 0}};
  try {
    for (int n : settings.sizes)
      factor(report, gpu_bench, settings, n);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
