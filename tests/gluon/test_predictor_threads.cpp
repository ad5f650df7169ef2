// One predictor, many threads.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/gluon/networks.h"
#include "tests/gluon/support.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Predictor;
namespace nn = gluon::nn;

namespace {

// Each gets the answer to its own request, with more threads than requests that may run at once.
void serve_threads(Device device, std::size_t most_at_once) {
  nn::Sequential net = sample_network("tf");
  net.initialize(gluon::init::Xavier(), device);
  constexpr int k_samples = 6, k_threads = 8, k_turns = 15;
  std::vector<std::vector<float>> samples, wanted;
  for (int i = 0; i < k_samples; ++i) {
    samples.push_back(pattern(144, 11 * i));
    wanted.push_back(values(net(array(samples.back(), {1, 1, 12, 12}, device))));
  }
  const Predictor predict(net, zeros({1, 1, 12, 12}, {.device = device}), {.most_at_once = most_at_once});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> got(10);
      for (int turn = 0; turn < k_turns; ++turn) {
        const auto asked = static_cast<std::size_t>((turn * (t + 1) + t) % k_samples);
        predict(samples[asked], got);
        for (std::size_t at = 0; at < got.size(); ++at)
          wrong += got[at] != Approx(wanted[asked][at]).epsilon(1e-4).margin(1e-4);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
  const Predictor::Counts counts = predict.counts();
  CHECK(counts.launched + counts.pushed == k_threads * k_turns);
  CHECK(counts.launched == (device.is_gpu() ? k_threads * k_turns : 0));
}

// While weights are written again and again, all of them by one number: no request sees two numbers, and none an older
// one than the request before.
void write_beside(Device device) {
  constexpr int k_threads = 6, k_writes = 60;
  constexpr std::int64_t k_units = 64;
  nn::Dense net(k_units, {.use_bias = false, .in_units = 32});
  net.initialize(gluon::init::One(), device);
  const Predictor predict(net, zeros({1, 32}, {.device = device}), {.most_at_once = 4});
  const NDArray weight = net.collect_params()["weight"].data();
  std::atomic<bool> stop{false};
  std::atomic<int> mixed{0}, older{0}, requests{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&] {
      const std::vector<float> x(32, 1);
      std::vector<float> y(k_units);
      float before = 0;
      while (!stop) {
        predict(x, y);
        for (const float one : y)
          mixed += one != y[0];
        older += y[0] < before;
        before = y[0];
        ++requests;
      }
    });
  }
  for (int i = 1; i <= k_writes; ++i) {
    fill(weight, i);
    for (const int seen = requests; requests < seen + 4;)
      std::this_thread::yield();
  }
  stop = true;
  for (std::thread& thread : threads)
    thread.join();
  CHECK(mixed == 0);
  CHECK(older == 0);
  std::vector<float> y(k_units);
  predict(std::vector<float>(32, 1), y);
  CHECK(y == std::vector<float>(k_units, 32.0f * k_writes));
}

}  // namespace

TEST_CASE("Many threads ask one predictor", "[gluon][predictor][concurrent]") {
  serve_threads(cpu(), 16);
}
TEST_CASE("Many threads ask one predictor of a GPU", "[gluon][predictor][concurrent][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  serve_threads(gpu(0), 16);
  serve_threads(gpu(0), 3);
}

TEST_CASE("No request sees parameters half-written", "[gluon][predictor][concurrent]") {
  write_beside(cpu());
}
TEST_CASE("No request of a GPU sees parameters half-written", "[gluon][predictor][concurrent][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  write_beside(gpu(0));
}
