// Operators whose bodies ask for a stream and get an error: their input turns out to have failed, which another thread
// finds that waits for it, or cannot be waited for. They fail, and the process goes on. On the simulated GPU alone.
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/cuda_sim/sim.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr int k_rounds = 30;

struct Family {
  const char* name;
  std::function<NDArray(const NDArray& x)> call;  // of (8, 8)
};

NDArray gradient(const NDArray& x, const std::function<NDArray(const NDArray&)>& call) {
  NDArray variable = x.detach();
  variable.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = call(variable);
  }
  y.backward();
  return variable.grad();
}

// One for each file of kernels.
std::vector<Family> families() {
  const NDArray w = ones({8, 8}, {.device = gpu(0)}), row = ones({8}, {.device = gpu(0)});
  const NDArray filters = ones({4, 1, 3, 3}, {.device = gpu(0)}), bias = ones({4}, {.device = gpu(0)});
  const NDArray labels = zeros({8}, {.dtype = int32, .device = gpu(0)});
  const auto plane = [](const NDArray& x) { return x.reshape({1, 1, 8, 8}); };
  const auto wide = ones({8, 512}, {.device = gpu(0)});
  return {
      {"elementwise", [=](const NDArray& x) { return x * w; }},
      {"reduce", [](const NDArray& x) { return sum(x, {0}); }},
      {"walk", [](const NDArray& x) { return roll(x, 3, 0); }},
      {"concat",
       [=](const NDArray& x) {
         return concat({w, x});
       }},
      {"take", [=](const NDArray& x) { return take(x, labels); }},
      {"pick", [=](const NDArray& x) { return pick(x, labels); }},
      {"small product", [=](const NDArray& x) { return matmul(x, w); }},
      {"flat product", [=](const NDArray& x) { return matmul(x.slice(0, 0, 1), wide); }},
      {"softmax", [](const NDArray& x) { return softmax(x); }},
      {"softmax backward", [](const NDArray& x) { return gradient(x, [](const NDArray& v) { return softmax(v); }); }},
      {"cross entropy", [=](const NDArray& x) { return softmax_cross_entropy(x, labels); }},
      {"norm", [=](const NDArray& x) { return batch_norm(x, row, row, row, row); }},
      {"norm backward",
       [=](const NDArray& x) {
         const NDArray mean = zeros({8}, {.device = gpu(0)}),
                       variance = ones({8}, {.device = gpu(0)});  // it writes them
         return gradient(x, [=](const NDArray& v) { return batch_norm(v, row, row, mean, variance); });
       }},
      {"layer norm", [=](const NDArray& x) { return layer_norm(x, row, row); }},
      {"layer norm backward",
       [=](const NDArray& x) { return gradient(x, [=](const NDArray& v) { return layer_norm(v, row, row); }); }},
      {"rms norm", [=](const NDArray& x) { return rms_norm(x, row); }},
      {"pool",
       [=](const NDArray& x) {
         return max_pool2d(plane(x), {.kernel = {2, 2}});
       }},
      {"convolution", [=](const NDArray& x) { return convolution(plane(x), filters, bias); }},
      {"scatter", [=](const NDArray& x) { return gradient(w, [=](const NDArray& v) { return take(v, labels) * x; }); }},
  };
}

// How many of some rounds ended with an error of that type.
template <class E>
int rounds_with(const std::function<void()>& round) {
  int met = 0;
  for (int i = 0; i < k_rounds; ++i) {
    try {
      round();
    } catch (const E&) {
      ++met;
    }
    try {
      Engine::current().wait_all();
    } catch (const Error&) {  // others of this round
    }
  }
  return met;
}

// Another thread waits for the input, and may find its error while the readers are issued.
void read_bad_input(const Family& family) {
  static int spins = 0;
  const NDArray table = ones({5, 8}, {.device = gpu(0)});
  const NDArray x = take(table, full({8}, 9, {.dtype = int32, .device = gpu(0)}));
  std::atomic<bool> waits{false};
  const std::jthread other([&] {
    waits = true;
    try {
      x.wait_to_read();
    } catch (const IndexError&) {
    }
  });
  while (!waits) {
  }
  for (volatile int spin = 0; spin < spins;)
    spin = spin + 1;
  spins = (spins + 977) % 20000;
  const NDArray made[] = {family.call(x), family.call(x)};
  for (const NDArray& one : made)
    one.wait_to_read();
}

// The second reader goes to a stream that cannot be made to wait for the input.
void read_behind_failing_wait(const Family& family) {
  const NDArray x = full({8, 8}, 0.5, {.device = gpu(0)}) * 2.0;
  const NDArray first = x + 1.0;
  sim::keep_failing("cudaStreamWaitEvent");
  const NDArray made[] = {family.call(x), family.call(x), family.call(x)};
  Engine::current().flush();
  sim::keep_failing("");
  for (const NDArray& one : made)
    one.wait_to_read();
}

}  // namespace

TEST_CASE("Failing inputs of operators on a GPU, alone", "[.][failing_inputs]") {
  Engine engine({.workers = 1, .launch = LaunchMode::direct});
  const EngineScope here(engine);
  const NDArray good = full({8, 8}, 0.5, {.device = gpu(0)});
  for (const Family& family : families()) {
    CAPTURE(family.name);
    CHECK(rounds_with<IndexError>([&] { read_bad_input(family); }) == k_rounds);
    CHECK(rounds_with<CudaError>([&] { read_behind_failing_wait(family); }) > 0);
    family.call(good).wait_to_read();
  }
}
TEST_CASE("An input that is found to have failed while its readers are issued ends no process", "[operators][gpu]") {
  CHECK(run_case_alone("[failing_inputs]") == 0);
}
