// The engine without arrays: tasks name what they read and write, and run in an order that nobody can tell from the
// order in which they were pushed.
#include <cstdio>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <sluice/engine/api.h>

#include "samples/engine_only_cuda.h"
#include "samples/support/flags.h"
#include "samples/support/run_main.h"

namespace {

using namespace sluice;

// y = a x + y on two halves in parallel, then their sum: three tasks that wait for nobody but each other.
void axpy(Engine& engine, int rounds) {
  constexpr std::size_t k_half = 1 << 16;
  std::vector<double> x(2 * k_half, 1.0), y(2 * k_half, 0.0);
  const Var halves[] = {engine.new_var(), engine.new_var()};
  const Var total = engine.new_var();
  double sum = 0;
  for (int round = 1; round <= rounds; ++round) {
    for (std::size_t half = 0; half < 2; ++half) {
      engine.push({.name = "axpy", .access = {write(halves[half])}}, [&x, &y, half, round] {
        for (std::size_t i = half * k_half; i < (half + 1) * k_half; ++i)
          y[i] += round * x[i];
      });
    }
    engine.push({.name = "sum", .access = {read(halves[0]), read(halves[1]), out(total)}}, [&y, &sum] {
      sum = std::accumulate(y.begin(), y.end(), 0.0);
    });
  }
  engine.wait(total);
  const double expected = 2.0 * k_half * rounds * (rounds + 1) / 2;
  fmt::print("axpy: {} tasks, sum {:.0f}, expected {:.0f}\n", 3 * rounds, sum, expected);
  require<Error>(sum == expected, [] { return "axpy: the sum is wrong"; });
}

// A failure travels along the Vars to whoever waits, with the task's name and the line that pushed it.
void failure(Engine& engine) {
  const Var input = engine.new_var(), output = engine.new_var();
  engine.push({.name = "reader", .access = {out(input)}}, [] { throw ValueError("the input is bad"); });
  engine.push({.name = "never runs", .access = {read(input), out(output)}}, [] {});
  try {
    engine.wait(output);
    throw Error("the failure got lost");
  } catch (const ValueError& error) {
    fmt::print("failure, as intended: {}\n", error.what());
    engine.forgive(error);
  }
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 0, rounds = 100;
  samples::CommandLine command("The engine without arrays: CPU tasks, errors, and GPU tasks where there is a GPU.");
  command.add_option("--threads", threads, "CPU workers (default: all)").check(samples::whole_within(1, 1024));
  command.add_option("--rounds", rounds, "Rounds of axpy").check(samples::whole_within(1, 100000)).with_default();
  return samples::run_main(command, argc, argv, [&] {
    Engine engine({.workers = threads});
    axpy(engine, rounds);
    failure(engine);
#ifdef SLUICE_CUDA
    if (num_gpus() > 0) {
      samples::gpu_tasks(engine);
      return 0;
    }
#endif
    fmt::print("no GPU here: that part is left out\n");
    return 0;
  });
}
