// The time of matrix products of many shapes, square, skinny and batched: with the algorithm that the library predicts
// and with the best of a trial of few and of many; with --exhaustive beside the best that a search through cuBLASLt's
// configurations finds. The peer is peers/torch_products.py.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/products/algorithm_search.h"
#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

using Problem = bench::ProductShape;
constexpr Problem k_problems[] = {
    {1, 128, 128, 128},        {1, 256, 256, 256},        {1, 512, 512, 512},         {1, 1024, 1024, 1024},
    {1, 2048, 2048, 2048},     {1, 4096, 4096, 4096},     {1, 8192, 8192, 8192},      {1, 1000, 1000, 1000},
    {1, 1, 4096, 4096},        {1, 1, 4096, 4096, true},  {1, 8, 4096, 4096},         {1, 16, 11008, 4096, true},
    {1, 32, 4096, 11008},      {1, 64, 4096, 4096, true}, {1, 128, 4096, 4096, true}, {1, 256, 784, 512},
    {1, 256, 10, 512, true},   {1, 4096, 10, 512},        {1, 65536, 16, 64},         {1, 65536, 64, 576},
    {1, 64, 64, 65536},        {1, 10, 512, 4096},        {1, 8192, 1024, 1024},      {1, 8192, 1024, 4096, true},
    {1, 50257, 768, 64},       {16, 128, 128, 64, true},  {96, 512, 512, 64, true},   {96, 512, 64, 512},
    {384, 197, 197, 64, true}, {1024, 32, 32, 32},        {1, 1, 1000, 2048, true},   {1, 4, 4096, 4096, true},
    {1, 1, 50304, 768, true},
};

std::string name_of(const Problem& p) {
  return message(p.batch, "x", p.m, "x", p.n, "x", p.k, p.turned ? "t" : "");
}

// us a product, the middle of all blocks; 0 where it is not asked for.
double run_problem(bench::Report& report, const Problem& p, DType dtype, const std::string& tuning) {
  const bool small = report.options().smoke || report.options().device.is_cpu();
  const auto less = [&](std::int64_t extent, std::int64_t limit) { return small ? std::min(extent, limit) : extent; };
  const std::int64_t batch = less(p.batch, 4), m = less(p.m, 128), n = less(p.n, 128), k = less(p.k, 128);
  const std::string name = name_of(p);
  const std::string variant = message(dtype, tuning);
  if (!report.wants(name, variant))
    return 0;
  random::seed(3);
  const auto drawn = [&](const Shape& shape) {
    const Shape stored = batch > 1 ? Shape{batch, shape[0], shape[1]} : shape;
    return random::uniform(-0.1, 0.1, stored, {.device = report.options().device}).astype(dtype);
  };
  const NDArray a = drawn({m, k});
  const NDArray b = p.turned ? drawn({n, k}).swapaxes(-1, -2) : drawn({k, n});
  NDArray c;
  const bench::Timing timing = report.time(
      report.options().device.is_gpu() ? 60 : 1, 3, [&] { c = matmul(a, b); }, [] { Engine::current().wait_all(); });
  report.add(name, variant, "time", timing.median * 1e6, "us", timing.min * 1e6);
  report.expect(std::isfinite(sum(c.astype(float32)).item<double>()), name);
  return timing.median * 1e6;
}

#ifdef SLUICE_CUDA
// How far the best of our times are from the best that there is: of what a kernel takes, and of calls from the host.
class Comparison {
 public:
  Comparison(bench::Report& report, DType dtype, double seconds) : report_(report), dtype_(dtype), seconds_(seconds) {}

  // `chosen`: as the library keeps it.
  void add(const Problem& p, double ours, const std::vector<std::uint64_t>& chosen) {
    const std::string name = name_of(p), variant = message(dtype_, "-search");
    const bench::SearchResult found = bench::search_algorithms(p, dtype_, seconds_, chosen);
    const auto us = [&](const char* metric, double value) { report_.add(name, variant, metric, value, "us"); };
    us("kernel-predicted", found.predicted);
    us("kernel-of-predicted", found.predictions);
    us("kernel-best", found.best);
    us("kernel-best-in-order", found.in_order);
    us("best-called", found.eager);
    report_.add(name, variant, "tried", found.timed, "algorithms");
    report_.add(name, variant, "checked", found.checked, "algorithms,best:" + found.what);
    calls_.add(report_, name, variant, "ours/best-called", ours / found.eager);
    kernels_.add(report_, name, variant, "predictions/best", found.predictions / found.best);
    if (found.chosen > 0) {
      us("kernel-chosen", found.chosen);
      chosen_.add(report_, name, variant, "chosen/best", found.chosen / found.best);
    }
  }
  void summarise() const {
    calls_.summarise(report_, message(dtype_), "ours/best-called");
    kernels_.summarise(report_, message(dtype_), "predictions/best");
    chosen_.summarise(report_, message(dtype_), "chosen/best");
  }

 private:
  struct Ratios {
    int count = 0, within = 0;
    double logarithms = 0, worst = 0;

    void add(
        bench::Report& report, const std::string& name, const std::string& variant, const char* what, double ratio) {
      report.add(name, variant, what, ratio, "x");
      ++count;
      within += ratio <= 1.02 ? 1 : 0;
      logarithms += std::log(ratio);
      worst = std::max(worst, ratio);
    }
    void summarise(bench::Report& report, const std::string& variant, const std::string& what) const {
      report.add("all", variant, what + "<=1.02", within, message("of-", count));
      report.add("all", variant, what + "-mean", count == 0 ? 0 : std::exp(logarithms / count), "x");
      report.add("all", variant, what + "-worst", worst, "x");
    }
  };

  bench::Report& report_;
  DType dtype_;
  double seconds_;
  Ratios calls_, kernels_, chosen_;
};
#endif

struct Search {
  bool wanted = false;
  double seconds = 4;
};

#ifdef SLUICE_CUDA
// Where the library keeps what its trials choose, empty at first: what it adds for a product is read here.
class Choices {
 public:
  Choices() : folder_(std::filesystem::temp_directory_path() / message("bench_products-", ::getpid())) {
    std::filesystem::create_directories(folder_);
    ::setenv("SLUICE_PLAN_CACHE", folder_.c_str(), 1);
  }
  Choices(const Choices&) = delete;
  Choices& operator=(const Choices&) = delete;
  ~Choices() {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  /// The words of the last choice since this was asked before; empty where there is none.
  std::vector<std::uint64_t> added() {
    std::ifstream file(folder_ / "choices-1.txt");
    std::string line, last;
    std::size_t count = 0;
    for (; std::getline(file, line); ++count)
      last = line;
    const bool is_new = std::exchange(lines_, count) != count;
    std::istringstream text(is_new ? last.substr(last.find('\t') + 1) : "");
    return {std::istream_iterator<std::uint64_t>(text), {}};
  }

 private:
  std::filesystem::path folder_;
  std::size_t lines_ = 0;
};
#endif

std::string text_of(Autotune how) {
  return how == Autotune::off ? "" : how == Autotune::first_use ? "-tuned" : "-all";
}

void run_type(bench::Report& report, DType dtype, [[maybe_unused]] const Search& search) {
#ifdef SLUICE_CUDA
  static Choices choices;
  Comparison comparison(report, dtype, search.seconds);
#endif
  for (const Problem& problem : k_problems) {
    double least = 0;
    for (const Autotune how : {Autotune::off, Autotune::first_use, Autotune::exhaustive}) {
      set_autotune(how);
      const double time = run_problem(report, problem, dtype, text_of(how));
      least = least == 0 || (time > 0 && time < least) ? time : least;
      if (report.options().device.is_cpu())
        break;
    }
#ifdef SLUICE_CUDA
    if (search.wanted && report.options().device.is_gpu() && least > 0)
      comparison.add(problem, least, choices.added());
#endif
  }
#ifdef SLUICE_CUDA
  if (search.wanted && report.options().device.is_gpu())
    comparison.summarise();
#endif
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_products", "Matrix products of thirty shapes, as predicted and as tried");
  Search search;
#ifdef SLUICE_CUDA
  report.flag("--exhaustive", search.wanted, "On a GPU: search all that cuBLASLt has for each shape as well");
  report.flag("--seconds", search.seconds, "Of a search").range(0.1, 600.0);
#endif
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const bool gpu = report.options().device.is_gpu();
    set_float32_precision(gpu ? "high" : "highest");
    for (const DType dtype : gpu ? std::vector<DType>{bfloat16, float32} : std::vector<DType>{float32})
      run_type(report, dtype, search);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
