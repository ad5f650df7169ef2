// A server under load, in traces, and asked by tasks of its own engine.
#include <atomic>
#include <thread>
#include <vector>

#include "tests/gluon/held_server.h"
#include "tests/gluon/networks.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;
using gluon::Server;
using gluon::ServerReply;
namespace nn = gluon::nn;

namespace {

// Each gets the answer to its own sample, whatever batches they made.
void serve_threads(Device device) {
  nn::Sequential net = sample_network("tf");
  net.initialize(gluon::init::Xavier(), device);
  constexpr int k_samples = 12, k_threads = 5, k_turns = 40;
  std::vector<std::vector<float>> samples, wanted;
  for (int i = 0; i < k_samples; ++i) {
    samples.push_back(values(sluice::random::normal(0, 1, {1, 12, 12})));
    wanted.push_back(values(net(array(samples.back(), {1, 1, 12, 12}, device))));
  }
  Server server(net, {.sample = {1, 12, 12}, .device = device, .max_batch = 6, .threads = 2, .max_queue = 20});
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<ServerReply> open;
      std::vector<std::size_t> asked;
      for (int turn = 0; turn < k_turns; ++turn) {
        asked.push_back(static_cast<std::size_t>((turn * (t + 1) + t) % k_samples));
        open.push_back(server.submit(samples[asked.back()]));
        if (turn % (t + 1) != 0)
          continue;
        for (std::size_t i = 0; i < open.size(); ++i) {
          const std::vector<float> got = open[i].get<float>();
          for (std::size_t at = 0; at < got.size(); ++at)
            wrong += got[at] != Approx(wanted[asked[i]][at]).epsilon(1e-4).margin(1e-4);
        }
        open.clear();
        asked.clear();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  server.stop();
  CHECK(wrong == 0);
  CHECK(server.stats().requests == k_threads * k_turns);
  CHECK(net.hybrid_traces() <= 2 * 4);  // sizes 1, 2, 4, 6, on two threads
}

}  // namespace

TEST_CASE("Many threads are served by one network", "[gluon][server][concurrent]") {
  serve_threads(cpu());
}
TEST_CASE("Many threads are served by one network on a GPU", "[gluon][server][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  serve_threads(gpu(0));
}

TEST_CASE("Tasks may wait for a server of their own engine", "[gluon][server]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  nn::Sequential net;
  net.add(nn::Dense(2));
  net.initialize(gluon::init::One());
  net(zeros({1, 2000}));  // too large for what runs at once
  Server server(net, {.sample = {2000}, .max_batch = 4});
  const std::vector<float> ones(2000, 1.0f);
  std::vector<float> got[3];
  for (auto& to : got)
    engine.push({.name = "asks"}, [&] { to = server.submit(ones).get<float>(); });
  engine.wait_all();
  for (const auto& answer : got)
    CHECK(answer == std::vector<float>{2000, 2000});
}

TEST_CASE("A trace shows how batches waited and ran", "[gluon][server][trace]") {
  Engine engine({.workers = 2});
  const EngineScope here(engine);
  Held held;
  Server server(held.net, held.options());
  engine.start_trace();
  const std::vector<ServerReply> replies = hand_in(held, server, 4);
  held.gate.open();
  server.stop();
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  std::vector<TraceEvent> queued, ran;
  for (const TraceEvent& event : trace.events()) {
    if (event.name == "server queue")
      queued.push_back(event);
    if (event.name.starts_with("server batch"))
      ran.push_back(event);
  }
  REQUIRE((queued.size() == 2 && ran.size() == 2));
  CHECK(ran[0].name == "server batch of 1 (1)");
  CHECK(ran[1].name == "server batch of 3 (4)");
  CHECK(queued[1].pushed < ran[0].ended);  // it waited while the first ran
  CHECK(queued[1].ended >= ran[0].ended);
  CHECK(ran[1].outcome == TaskOutcome::ok);
}

TEST_CASE("Latencies are counted within an eighth", "[gluon][server]") {
  gluon::ServerLatencies latencies;
  CHECK(latencies.percentile(50) == 0);
  for (int us = 1; us <= 10000; ++us)
    latencies.add(us);
  for (const double percent : {1.0, 10.0, 50.0, 90.0, 99.0}) {
    CHECK(latencies.percentile(percent) >= percent * 100);
    CHECK(latencies.percentile(percent) <= percent * 100 * 1.13 + 1);
  }
  CHECK(latencies.percentile(100) == 10000);
  gluon::ServerLatencies more;
  more.add(1e12);
  more.add(-1);
  more.merge(latencies);
  CHECK(more.total() == 10002);
  CHECK(more.max_us == 1e12);
}
