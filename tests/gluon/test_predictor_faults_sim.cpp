// Requests to a GPU whose calls fail, or whose graph is not what one would think: on the simulated GPU alone.
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <sluice/operator/graph/trace.h>

#include "tests/gluon/networks.h"
#include "tests/gluon/support.h"
#include "tests/support/child.h"
#include "tests/support/cuda_sim/sim.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Predictor;
namespace nn = gluon::nn;

namespace {

void let_others() {
  std::this_thread::sleep_for(std::chrono::microseconds(200));
}

// What has failed before, and what has still to.
void forget_faults() {
  sim::fail_nth("none", 1, cudaErrorUnknown);
}

/// Work runs by hand from here on.
struct ByHand {
  ByHand() { sim::set_manual(true); }
  ~ByHand() { sim::set_manual(false); }
};

/// A request on a thread of its own.
struct Request {
  std::vector<float> y = std::vector<float>(2);
  std::atomic<bool> answered{false};
  std::thread thread;

  Request(Predictor& predict, std::vector<float> x)
      : thread([this, &predict, x = std::move(x)] {
          predict(x, y);
          answered = true;
        }) {}
  void run_all() {
    while (!answered) {
      sim::run_one();
      let_others();
    }
    thread.join();
  }
};

// What a launch uses is its own until it is over, whatever a call says that only asked for that.
void waits_for_what_runs(const std::function<void()>& fail) {
  for (int round = 0; round < 6; ++round) {
    Engine engine({.workers = 1});
    const EngineScope here(engine);
    const nn::Dense net = ones_of(2, 3, gpu(0));
    Predictor predict(net, zeros({1, 3}, {.device = gpu(0)}), {.most_at_once = 1});
    std::vector<float> y(2);
    predict(std::vector<float>{1, 2, 3}, y);
    engine.wait_all();
    const ByHand manual;
    forget_faults();
    fail();
    Request first(predict, {10, 20, 30});
    while (sim::failed_call().empty())
      let_others();
    fill(net.collect_params()["weight"].data(), 2);  // a writer, which waits for the launch
    for (int i = 0; i < 20; ++i)
      let_others();
    CHECK_FALSE(first.answered);
    first.run_all();
    CHECK(first.y == std::vector<float>{60, 60});
    sim::keep_failing("");
    sim::set_manual(false);
    engine.wait_all();
    sim::set_manual(true);
    Request second(predict, {100, 200, 300});
    second.run_all();
    CHECK(second.y == std::vector<float>{1200, 1200});
    CHECK(predict.counts().launched == 3);
    CHECK(predict.counts().pushed == 0);
    sim::set_manual(false);
    engine.wait_all();
    CHECK(sim::violations().empty());
  }
}

}  // namespace

TEST_CASE("A call that fails to wait for a launch does not end the request", "[gluon][predictor][gpu]") {
  waits_for_what_runs([] { sim::fail_nth("cudaStreamSynchronize", 1, cudaErrorUnknown); });
}
TEST_CASE("Nor do all such calls", "[gluon][predictor][gpu]") {
  waits_for_what_runs([] { sim::keep_failing("cudaStreamSynchronize", cudaErrorInvalidValue); });
}

TEST_CASE("A GPU that is lost below a request, alone", "[.][gluon_lost_below]") {
  const nn::Dense net = ones_of(2, 3, gpu(0));
  const Predictor predict(net, zeros({1, 3}, {.device = gpu(0)}), {.most_at_once = 1});
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(2);
  predict(x, y);
  sim::set_manual(true);
  std::thread loses([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    sim::lose_device(0);
  });
  CHECK_THROWS_AS(predict(x, y), CudaError);
  loses.join();
  CHECK_THROWS_AS(predict(x, y), CudaError);
}
TEST_CASE("A request whose GPU is lost meanwhile is told so", "[gluon][predictor][gpu]") {
  CHECK(run_case_alone("[gluon_lost_below]") == 0);
}

// Each call in turn: the answers are right, and at the latest after some requests by tasks one is launched.
TEST_CASE("No call that fails once while a request is captured keeps later ones from it", "[gluon][predictor][gpu]") {
  std::set<std::string> met;
  for (const cudaError_t error : {cudaErrorMemoryAllocation, cudaErrorStreamCaptureInvalidated}) {
    for (int nth = 1;; ++nth) {
      Engine engine({.workers = 1});
      const EngineScope here(engine);
      const nn::Dense net = ones_of(2, 3, gpu(0));
      const Predictor predict(net, zeros({1, 3}, {.device = gpu(0)}), {.most_at_once = 1});
      engine.wait_all();
      sim::fail_nth(nth, error);
      std::vector<float> y(2);
      for (int i = 1; i <= 12; ++i) {
        const auto value = static_cast<float>(i);
        predict(std::vector<float>{value, 2 * value, 3 * value}, y);
        CHECK(y == std::vector<float>{6 * value, 6 * value});
      }
      const std::string failed = sim::failed_call();
      CAPTURE(nth, failed);
      CHECK(predict.counts().launched > 0);
      engine.wait_all();
      met.insert(failed);
      if (failed.empty())
        break;
    }
  }
  forget_faults();
  for (const char* const name : {"cudaGraphInstantiate", "cudaStreamBeginCapture", "cudaStreamEndCapture"})
    CHECK(met.contains(name));
}

TEST_CASE("Capturing takes the request's own values: zeros may be bad ones", "[gluon][predictor][gpu]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  const NDArray table = array<float>({0, 10, 20, 30, 40}, {5}, gpu(0));
  const nn::Lambda net([table](const NDArray& x) { return take(table, x + 5); });
  const Predictor predict(net, zeros({2}, {.dtype = int32, .device = gpu(0)}), {.most_at_once = 1});
  std::vector<float> y(2);
  const bool bad_first = GENERATE(false, true);
  if (bad_first)
    CHECK_THROWS_AS(predict(std::vector<std::int32_t>{-1, 0}, y), IndexError);
  engine.wait_all();  // no error is left behind
  for (int i = 0; i < 8; ++i) {
    predict(std::vector<std::int32_t>{-5 + i % 5, -1}, y);
    CHECK(y == std::vector<float>{10.0f * static_cast<float>(i % 5), 40});
  }
  CHECK(predict.counts().launched == (bad_first ? 7 : 8));
  CHECK(predict.counts().pushed == (bad_first ? 2 : 0));
  CHECK_THROWS_AS(predict(std::vector<std::int32_t>{0, -1}, y), IndexError);
  engine.wait_all();
}

// Without outputs nothing says that a launch is over.
TEST_CASE("A graph without outputs runs by tasks", "[gluon][predictor][gpu]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  graph::Tracer tracer;
  const NDArray x = tracer.input({{1 << 16}, float32, gpu(0)});
  const graph::Graph graph = tracer.trace([&] {
    (void)(x * 2.0);
    return Arrays{};
  });
  std::vector<float> a(1 << 16);
  const graph::HostValues in[] = {{a.data(), float32, 1 << 16}};
  {
    graph::HostPlan plan(graph, {.most_at_once = 1});
    for (int i = 0; i < 3; ++i)
      plan.run(in, {});
    CHECK(plan.counts().launched == 0);
    CHECK(plan.counts().pushed == 3);
  }
  engine.wait_all();
  CHECK(sim::violations().empty());
}

// Of a node that no output needs, and of an input that no node reads.
TEST_CASE("An answer comes after all that its launch does", "[gluon][predictor][gpu]") {
  for (int round = 0; round < 10; ++round) {
    Engine engine({.workers = 1});
    const EngineScope here(engine);
    const NDArray w = ones({64}, {.device = gpu(0)});
    graph::Tracer tracer;
    const NDArray x = tracer.input({{64}, float32, gpu(0)});
    (void)tracer.input({{1 << 12}, float32, gpu(0)});
    const graph::Graph graph = tracer.trace([&] {
      const NDArray dead = x * w;
      (void)(dead * w);
      return Arrays{x + 1.0};
    });
    std::vector<float> a(64, 3.0f), unused(1 << 12), b(64);
    const graph::HostValues in[] = {{a.data(), float32, 64}, {unused.data(), float32, 1 << 12}};
    const graph::HostRoom out[] = {{b.data(), float32, 64}};
    graph::HostPlan plan(graph, {.most_at_once = 1, .optimise = false});
    plan.run(in, out);
    engine.wait_all();
    const ByHand manual;
    std::atomic<bool> done{false};
    std::thread asks([&] {
      plan.run(in, out);
      done = true;
    });
    while (!done) {
      sim::run_one();
      let_others();
    }
    asks.join();
    CHECK(plan.counts().launched == 2);
    CHECK(sim::idle());
    CHECK(b == std::vector<float>(64, 4.0f));
  }
}

TEST_CASE("A network on one GPU after another one is lost, alone", "[.][gluon_other_lost]") {
  sim::reset({.devices = 2});
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  const nn::Dense net = ones_of(2, 3, gpu(1));
  net(zeros({1, 3}, {.device = gpu(1)})).wait_to_read();
  engine.wait_all();
  sim::lose_device(0);  // the one that is current
  const Predictor predict(net, zeros({1, 3}, {.device = gpu(1)}), {.most_at_once = 1});
  const std::vector<float> x{1, 2, 3};
  std::vector<float> y(2);
  for (int i = 0; i < 5; ++i) {
    y = {0, 0};
    predict(x, y);
    CHECK(y == std::vector<float>{6, 6});
  }
  CHECK(predict.counts().launched == 5);
  std::vector<float> large(1 << 16, 1.0f);
  nn::Lambda twice([](const NDArray& a) { return a + a; });
  const Predictor by_tasks(twice, zeros({1 << 16}, {.device = gpu(1)}), {.most_at_once = 1});
  std::vector<float> doubled(1 << 16);
  by_tasks(large, doubled);
  engine.start_trace();  // then tasks do it, by way of pinned memory
  by_tasks(large, doubled);
  (void)engine.stop_trace();
  CHECK(by_tasks.counts().pushed == 1);
  CHECK(doubled == std::vector<float>(1 << 16, 2.0f));
  const NDArray table = array<float>({1, 2}, {2}, gpu(1));
  CHECK_THROWS_AS(take(table, array<std::int32_t>({7}, {1}, gpu(1))).to_vector<float>(), IndexError);
}
TEST_CASE("A lost GPU takes no network of another one along", "[gluon][predictor][gpu]") {
  CHECK(run_case_alone("[gluon_other_lost]") == 0);
}
