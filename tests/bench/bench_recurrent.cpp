// The time of recurrent layers, forward and backward. The peer is peers/torch_recurrent.py.
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

struct Problem {
  RnnMode mode;
  std::int64_t steps, batch, input, hidden, layers;
  bool both = false;
};
constexpr Problem k_problems[] = {
    {RnnMode::lstm, 35, 64, 256, 256, 1},
    {RnnMode::lstm, 35, 64, 512, 512, 1},
    {RnnMode::gru, 35, 64, 512, 512, 1},
    {RnnMode::rnn_tanh, 35, 64, 512, 512, 1},
    {RnnMode::lstm, 35, 64, 512, 512, 2, true},
    {RnnMode::lstm, 35, 1, 512, 512, 1},
};
constexpr Problem k_large[] = {
    // of GPUs alone
    {RnnMode::lstm, 128, 128, 1024, 1024, 2},
    {RnnMode::gru, 128, 128, 1024, 1024, 2},
};

constexpr const char* k_names[] = {"rnn_relu", "rnn_tanh", "lstm", "gru"};

std::string name_of(const Problem& p) {
  const std::string both = p.both ? "-both" : "";
  return message(
      k_names[static_cast<std::size_t>(p.mode)], "-", p.steps, "x", p.batch, "x", p.hidden, "x", p.layers, both);
}

// The first sample, beside what the CPU makes of it in float64.
bool is_right(const NDArray& y, const NDArray& x, const NDArray& parameters, const RnnOptions& how) {
  const auto wide = [](const NDArray& narrow) { return narrow.to(cpu()).astype(float64); };
  const NDArray want = rnn(wide(x.slice(1, 0, 1)), wide(parameters), {}, how)[0];
  return max(abs(wide(y.slice(1, 0, 1)) - want)).item<double>() < (y.dtype() == float32 ? 1e-3 : 0.1);
}

void run_problem(bench::Report& report, Problem p, DType dtype) {
  const std::string name = name_of(p), variant = message(dtype);
  if (!report.wants(name, variant))
    return;
  const Device device = report.options().device;
  if (report.options().smoke) {
    p.steps = 2;
    p.batch = 2;
    p.input = p.hidden = 8;
  }
  const RnnOptions how{p.mode, p.hidden, p.layers, p.both};
  random::seed(3);
  NDArray x = random::normal(0, 1, {p.steps, p.batch, p.input}, {.device = device}).astype(dtype);
  NDArray parameters = random::normal(0, 0.03, {rnn_parameter_size(p.input, how)}, {.device = device}).astype(dtype);
  x.attach_grad();
  parameters.attach_grad();
  const auto wait = [] { Engine::current().wait_all(); };
  const int steps = device.is_gpu() ? 10 : 1;
  NDArray y;
  const bench::Timing forward = report.time(
      steps, 3, [&] { y = rnn(x, parameters, {}, how)[0]; }, wait);
  report.add(name, variant, "forward", forward.median * 1e6, "us", forward.min * 1e6);
  report.expect(is_right(y, x, parameters, how), name);
  const NDArray head = random::normal(0, 1, y.shape(), {.device = device}).astype(dtype);
  std::vector<NDArray> grads;
  const bench::Timing training = report.time(
      steps,
      3,
      [&] {
        {
          const autograd::RecordScope record;
          y = rnn(x, parameters, {}, how)[0];
        }
        grads = autograd::grad(std::vector{y}, std::vector{x, parameters}, std::vector{head});
      },
      wait);
  report.add(name, variant, "training", training.median * 1e6, "us", training.min * 1e6);
  for (const NDArray& grad : grads)
    report.expect(all(isfinite(grad)).item<bool>(), name + ", backward");
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_recurrent", "Recurrent layers, forward and backward");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    const bool on_gpu = report.options().device.is_gpu();
    for (const DType dtype : on_gpu ? std::vector<DType>{float32, float16, bfloat16} : std::vector<DType>{float32}) {
      for (const Problem& problem : k_problems)
        run_problem(report, problem, dtype);
      for (std::size_t i = 0; on_gpu && i < std::size(k_large); ++i)
        run_problem(report, k_large[i], dtype);
    }
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
