// The cost of a tiny operation, and the memory rate of large ones.
#include <cmath>
#include <cstdint>
#include <string>

#include <sluice/operator/api.h>

#include "tests/bench/support/bench.h"

namespace {

using namespace sluice;

void wait() {
  Engine::current().wait_all();
}

// c = a + b over 16 floats, the result awaited once for many: all of it is the price of an operation.
void tiny_add(bench::Report& report, Device device, bool with_tape) {
  const std::string variant = with_tape ? "eager-autograd" : "eager";
  if (!report.wants("tiny-add", variant))
    return;
  NDArray a = ones({16}, {.device = device});
  const NDArray b = ones({16}, {.device = device});
  if (with_tape)
    a.attach_grad();
  NDArray c;
  const bench::Timing timing = report.time(
      20000,
      2000,
      [&] {
        autograd::ModeScope mode(with_tape, with_tape);
        c = a + b;
      },
      wait);
  report.expect(c.to_vector<float>() == std::vector<float>(16, 2.0F), "tiny-add");
  report.add("tiny-add", variant, "op", timing.median * 1e9, "ns", timing.min * 1e9);
}

struct Rate {
  bench::Report& report;
  std::string size;
  std::int64_t n;
  int steps;

  // The bytes of `passes` arrays of n floats are read or written by one call.
  void operator()(const std::string& what, double passes, const std::function<void()>& call) const {
    const std::string workload = what + "-" + size;
    const bench::Timing timing = report.time(steps, 2, call, wait);
    const double bytes = 4.0 * passes * static_cast<double>(n);
    report.add(workload, "eager", "rate", bytes / timing.median / 1e9, "GB/s", bytes / timing.min / 1e9);
  }
};

// Functions that have vectors of their own, and a gradient.
void functions(const Rate& rate, const NDArray& a, NDArray& c) {
  struct Case {
    const char* name;
    NDArray (*call)(const NDArray&, SourceLocation);
    double value;  // of 0.5
  };
  const Case cases[] = {
      {"tanh", &tanh, 0.46211715726000975},
      {"log", &log, -0.6931471805599453},
      {"gelu", &gelu, 0.34573123063700656},
      {"sin", &sin, 0.479425538604203}};
  for (const Case& at : cases) {
    if (!rate.report.wants(std::string(at.name) + "-" + rate.size, "eager"))
      continue;
    rate(at.name, 2, [&] { c = at.call(a, SourceLocation::current()); });
    rate.report.expect(std::abs(c[rate.n - 1].item<double>() - at.value) < 1e-5, at.name);
  }
}

// Rows of 1024, turned axes and half types.
void rows_and_layouts(const Rate& rate, const NDArray& a, NDArray& c) {
  bench::Report& report = rate.report;
  const std::int64_t width = rate.n < (1 << 20) ? 64 : 1024;
  const NDArray rows = a.reshape({rate.n / width, width});
  if (report.wants("softmax-" + rate.size, "eager")) {
    rate("softmax", 2, [&] { c = softmax(rows, 1); });
    report.expect(
        std::abs(c.reshape({rate.n})[rate.n - 1].item<double>() * static_cast<double>(width) - 1) < 1e-5, "softmax");
  }
  if (report.wants("log-softmax-" + rate.size, "eager")) {
    rate("log-softmax", 2, [&] { c = log_softmax(rows, 1); });
    report.expect(
        std::abs(c.reshape({rate.n})[0].item<double>() + std::log(static_cast<double>(width))) < 1e-5, "log_softmax");
  }
  const NDArray square = a.reshape({rate.n / (width * 8), width * 8});
  if (report.wants("transpose-" + rate.size, "eager")) {
    rate("transpose", 2, [&] { c = square.T().copy(); });
    report.expect(c.reshape({rate.n})[rate.n - 1].item<float>() == 0.5F, "transpose");
  }
  const NDArray half = a.astype(bfloat16);
  if (report.wants("from-bfloat16-" + rate.size, "eager")) {
    // Two bytes read and four written an element.
    rate("from-bfloat16", 1.5, [&] { c = half.astype(float32); });
    report.expect(c[rate.n - 1].item<float>() == 0.5F, "from-bfloat16");
  }
}

void bandwidth(bench::Report& report, Device device) {
  const bool gpu = device.is_gpu();
  const std::int64_t n = report.options().smoke ? 1 << 12 : std::int64_t{1} << (gpu ? 27 : 26);
  const Rate rate{report, gpu ? "128M" : "64M", n, gpu ? 20 : 3};
  const NDArray a = full({n}, 0.5, {.device = device});
  const NDArray b = full({n}, 0.25, {.device = device});
  NDArray c = empty({n}, {.device = device});
  NDArray total;
  if (report.wants("add-" + rate.size, "eager")) {
    rate("add", 3, [&] { c = a + b; });
    report.expect(c[n - 1].item<float>() == 0.75F, "add");
  }
  if (report.wants("copy-" + rate.size, "eager")) {
    rate("copy", 2, [&] { copy_into(a, c); });
    report.expect(c[n - 1].item<float>() == 0.5F, "copy");
  }
  if (report.wants("sum-" + rate.size, "eager")) {
    rate("sum", 1, [&] { total = sum(a); });
    const double expected = 0.5 * static_cast<double>(n);
    report.expect(std::abs(total.item<double>() - expected) <= 1e-5 * expected, "sum");
  }
  if (report.wants("exp-" + rate.size, "eager")) {
    rate("exp", 2, [&] { c = exp(a); });
    report.expect(std::abs(c[n - 1].item<double>() - std::exp(0.5)) < 1e-5, "exp");
  }
  functions(rate, a, c);
  rows_and_layouts(rate, a, c);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Report report("bench_elementwise", "Tiny operations, and the memory rate of large ones");
  if (!report.parse(argc, argv))
    return report.exit_code();
  try {
    tiny_add(report, report.options().device, false);
    tiny_add(report, report.options().device, true);
    bandwidth(report, report.options().device);
  } catch (const Error& error) {
    report.expect(false, error.what());
  }
  return report.finish();
}
