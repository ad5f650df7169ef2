// The time of matrix products of many shapes, square, skinny and batched: with the algorithm that the library predicts
// and with the best of a trial of few and of many. The peer is peers/torch_products.py.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

// batch products of (m, k) by (k, n); `right` is stored transposed where `turned`.
struct Problem {
  std::int64_t batch, m, n, k;
  bool turned = false;
};
constexpr Problem k_problems[] = {
    {1, 128, 128, 128},        {1, 256, 256, 256},        {1, 512, 512, 512},         {1, 1024, 1024, 1024},
    {1, 2048, 2048, 2048},     {1, 4096, 4096, 4096},     {1, 8192, 8192, 8192},      {1, 1000, 1000, 1000},
    {1, 1, 4096, 4096},        {1, 1, 4096, 4096, true},  {1, 8, 4096, 4096},         {1, 16, 11008, 4096, true},
    {1, 32, 4096, 11008},      {1, 64, 4096, 4096, true}, {1, 128, 4096, 4096, true}, {1, 256, 784, 512},
    {1, 256, 10, 512, true},   {1, 4096, 10, 512},        {1, 65536, 16, 64},         {1, 65536, 64, 576},
    {1, 64, 64, 65536},        {1, 10, 512, 4096},        {1, 8192, 1024, 1024},      {1, 8192, 1024, 4096, true},
    {1, 50257, 768, 64},       {16, 128, 128, 64, true},  {96, 512, 512, 64, true},   {96, 512, 64, 512},
    {384, 197, 197, 64, true}, {1024, 32, 32, 32},
};

void run_problem(bench::Report& report, const Problem& p, DType dtype, const std::string& tuning) {
  const bool small = report.options().smoke || report.options().device.is_cpu();
  const auto less = [&](std::int64_t extent, std::int64_t limit) { return small ? std::min(extent, limit) : extent; };
  const std::int64_t batch = less(p.batch, 4), m = less(p.m, 128), n = less(p.n, 128), k = less(p.k, 128);
  const std::string name = message(p.batch, "x", p.m, "x", p.n, "x", p.k, p.turned ? "t" : "");
  const std::string variant = message(dtype, tuning);
  if (!report.wants(name, variant))
    return;
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
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_products", "Matrix products of thirty shapes, as predicted and as tried");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const bool gpu = report.options().device.is_gpu();
    for (const DType dtype : gpu ? std::vector<DType>{bfloat16, float32} : std::vector<DType>{float32}) {
      set_float32_precision(gpu ? "high" : "highest");
      for (const Problem& problem : k_problems) {
        for (const Autotune how : {Autotune::off, Autotune::first_use, Autotune::exhaustive}) {
          set_autotune(how);
          run_problem(
              report,
              problem,
              dtype,
              how == Autotune::off         ? ""
              : how == Autotune::first_use ? "-tuned"
                                           : "-all");
          if (!gpu)
            break;
        }
      }
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
