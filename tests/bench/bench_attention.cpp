// The time of attention, forward and backward: on a GPU one kernel each way, of half types. The peer is
// peers/torch_attention.py, which asks each of PyTorch's backends.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

struct Problem {
  std::int64_t batch, heads, groups, length, width;
  bool causal;
};
constexpr Problem k_problems[] = {
    {16, 16, 16, 2048, 64, true},
    {16, 16, 16, 2048, 128, true},
    {16, 16, 16, 2048, 64, false},
    {16, 16, 16, 2048, 128, false},
    {4, 32, 8, 4096, 128, true},
    {64, 12, 12, 197, 64, false},
};

std::string name_of(const Problem& p) {
  return message(p.batch, "x", p.heads, "/", p.groups, "x", p.length, "x", p.width, p.causal ? "c" : "");
}

// The first head's first queries, beside what float32 makes of them.
bool is_right(const NDArray& y, const std::vector<NDArray>& in, bool causal) {
  const auto first = [](const NDArray& x) { return x.slice(0, 0, 1).slice(1, 0, 1).astype(float32); };
  const std::int64_t some = std::min<std::int64_t>(y.shape()[2], 64);
  const NDArray q = first(in[0]).slice(2, 0, some);
  const NDArray want = scaled_dot_product_attention(q, first(in[1]), first(in[2]), {.causal = causal});
  return max(abs(first(y).slice(2, 0, some) - want)).item<double>() < 0.02;
}

void run_problem(bench::Report& report, Problem p, DType dtype) {
  const std::string name = name_of(p), variant = message(dtype);
  if (!report.wants(name, variant))
    return;
  const Device device = report.options().device;
  if (report.options().smoke || device.is_cpu()) {
    p.batch = 1;
    p.heads = std::min<std::int64_t>(p.heads, 4);
    p.groups = std::min<std::int64_t>(p.groups, p.heads);
    p.length = std::min<std::int64_t>(p.length, 64);
  }
  random::seed(3);
  std::vector<NDArray> in;
  for (const std::int64_t heads : {p.heads, p.groups, p.groups}) {
    in.push_back(random::normal(0, 1, {p.batch, heads, p.length, p.width}, {.device = device}).astype(dtype));
    in.back().attach_grad();
  }
  const auto wait = [] { Engine::current().wait_all(); };
  const int steps = device.is_gpu() ? 10 : 1;
  NDArray y;
  const bench::Timing forward = report.time(
      steps, 3, [&] { y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = p.causal}); }, wait);
  report.add(name, variant, "forward", forward.median * 1e6, "us", forward.min * 1e6);
  report.expect(is_right(y, in, p.causal), name);
  {
    const autograd::RecordScope record;
    y = scaled_dot_product_attention(in[0], in[1], in[2], {.causal = p.causal});
  }
  const NDArray head = random::normal(0, 1, y.shape(), {.device = device}).astype(dtype);
  std::vector<NDArray> grads;
  const bench::Timing backward = report.time(
      steps, 3, [&] { grads = autograd::grad(std::vector{y}, in, std::vector{head}, {.retain_graph = true}); }, wait);
  report.add(name, variant, "backward", backward.median * 1e6, "us", backward.min * 1e6);
  for (const NDArray& grad : grads)
    report.expect(all(isfinite(grad)).item<bool>(), name + ", backward");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_attention", "Attention, forward and backward");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    for (const DType dtype :
         report.options().device.is_gpu() ? std::vector<DType>{bfloat16, float16} : std::vector<DType>{float32}) {
      for (const Problem& problem : k_problems)
        run_problem(report, problem, dtype);
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
