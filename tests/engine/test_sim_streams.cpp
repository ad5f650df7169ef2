// The simulated CUDA runtime itself: streams, events, who runs when.
#include <set>
#include <thread>
#include <vector>

#include "tests/engine/sim_case.h"
#include "tests/support/scale.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Word = std::uint64_t;

void append(cudaStream_t stream, Word& word, Word value) {
  sim::launch(stream, [&word, value] { word = 3 * word + value; });
}

sim::Options by_hand(std::uint64_t seed = 1) {
  return {.devices = 2, .seed = seed, .manual = true};
}

}  // namespace

TEST_CASE("Simulator: a stream runs its work in order, whatever the seed", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sim sim(seeded(seed));
    SimStream stream;
    Word word = 0, expected = 0;
    for (Word i = 0; i < 100; ++i) {
      append(stream, word, i);
      expected = 3 * expected + i;
    }
    REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(word == expected);
    CHECK(cudaStreamQuery(stream) == cudaSuccess);
  }
}

TEST_CASE("Simulator: streams that nothing orders run in many orders, and at the same time", "[sim]") {
  std::set<std::vector<int>> orders;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    Sim sim(by_hand(seed));
    Log order;
    {
      SimStream streams[3];
      for (int i = 0; i < 6; ++i)
        sim::launch(streams[i % 3], [&order, i] { order.add(i); });
      CHECK(sim::run_all() == 6);
    }
    orders.insert(order.numbers());
  }
  CHECK(orders.size() > 20);  // of 90
  Sim sim;
  SimStream a, b;
  const Meeting meeting(2);
  std::atomic<int> met{0};
  for (cudaStream_t stream : {a.handle, b.handle})
    sim::launch(stream, [&met, meeting] { met += meeting.join(); });
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(met == 2);
  CHECK(sim::most_at_once() == 2);
}

TEST_CASE("Simulator: the same seed gives the same order when one thread steps", "[sim]") {
  std::vector<int> first;
  for (int round = 0; round < 3; ++round) {
    Sim sim(by_hand(99));
    SimStream streams[4];
    Log order;
    for (int i = 0; i < 40; ++i)
      sim::launch(streams[i % 4], [&order, i] { order.add(i); });
    sim::run_all();
    if (round == 0)
      first = order.numbers();
    CHECK(order.numbers() == first);
  }
}

TEST_CASE("Simulator: a wait means the record that was the latest when the wait was enqueued", "[sim]") {
  Sim sim(by_hand());
  SimStream writer, reader;
  SimEvent event;
  Word word = 0, other = 0, seen = 0;
  CHECK(cudaStreamWaitEvent(reader, event, 0) == cudaSuccess);  // never recorded: waits for nothing
  sim::launch(writer, [&] { word = 1; });
  CHECK(cudaEventRecord(event, writer) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(reader, event, 0) == cudaSuccess);
  sim::launch(reader, [&] { seen = word; });
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaSuccess);
  // Recorded anew behind work that does not run: the wait above must not care.
  SimStream blocked;
  sim::hold(blocked);
  sim::launch(blocked, [&] { other = 2; });
  CHECK(cudaEventRecord(event, blocked) == cudaSuccess);
  sim::run_all();
  CHECK(seen == 1);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  sim::release(blocked);
  sim::run_all();
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(other == 2);
}

TEST_CASE("Simulator: events order streams and the host, under every seed", "[sim]") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Sim sim(seeded(seed));
    SimStream streams[3];
    SimEvent event;
    Word word = 0, expected = 0;
    for (Word i = 0; i < 60; ++i) {
      if (i > 0)
        REQUIRE(cudaStreamWaitEvent(streams[i % 3], event, 0) == cudaSuccess);
      append(streams[i % 3], word, i);
      REQUIRE(cudaEventRecord(event, streams[i % 3]) == cudaSuccess);
      expected = 3 * expected + i;
    }
    REQUIRE(cudaEventSynchronize(event) == cudaSuccess);
    CHECK(word == expected);
  }
}

TEST_CASE("Simulator: without the waits the same program goes wrong", "[sim]") {
  if (k_thread_sanitizer)
    SLUICE_SKIP("it races on purpose");
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    Sim sim(by_hand(seed));
    sim::ignore_event_waits(true);
    SimStream streams[3];
    SimEvent event;
    Word word = 0, expected = 0;
    for (Word i = 0; i < 6; ++i) {
      CHECK(cudaStreamWaitEvent(streams[i % 3], event, 0) == cudaSuccess);
      append(streams[i % 3], word, i + 1);
      CHECK(cudaEventRecord(event, streams[i % 3]) == cudaSuccess);
      expected = 3 * expected + i + 1;
    }
    sim::run_all();
    wrong += word != expected;
  }
  CHECK(wrong > 15);
}

TEST_CASE("Simulator: what is held stays; the rest goes on, and a destroyed stream ends its work", "[sim]") {
  Sim sim;
  int held = 0, free = 0;
  cudaStream_t gone = nullptr;
  REQUIRE(cudaStreamCreate(&gone) == cudaSuccess);
  {
    SimStream other;
    sim::hold(gone);
    sim::launch(gone, [&] { ++held; });
    sim::launch(other, [&] { ++free; });
    REQUIRE(cudaStreamSynchronize(other) == cudaSuccess);
    CHECK(free == 1);
    CHECK(cudaStreamQuery(gone) == cudaErrorNotReady);
    CHECK_FALSE(sim::idle());
    sim::release(gone);
    CHECK(cudaStreamDestroy(gone) == cudaSuccess);
  }
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(held == 1);
}

TEST_CASE("Simulator: devices are current by thread, and streams and events belong to theirs", "[sim]") {
  Sim sim;
  int count = 0, device = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaSuccess);
  CHECK(count == 2);
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
  SimStream here;
  SimEvent event;
  CHECK(cudaSetDevice(1) == cudaSuccess);
  std::thread([&] { cudaGetDevice(&device); }).join();
  CHECK(device == 0);
  SimStream there;
  CHECK(sim::launch(here, [] {}) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(event, there) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(event, here) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(there, event, 0) == cudaSuccess);  // to wait across devices is allowed
  CHECK(sim::launch(there, [] {}) == cudaSuccess);
  CHECK(cudaStreamSynchronize(there) == cudaSuccess);
}

TEST_CASE("Simulator: host functions and priorities, times and texts", "[sim]") {
  Sim sim;
  SimEvent begin(cudaEventDefault), end(cudaEventDefault);
  int least = 1, greatest = 1, priority = 1, ran = 0;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  cudaStream_t urgent = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, greatest) == cudaSuccess);
  CHECK(cudaStreamGetPriority(urgent, &priority) == cudaSuccess);
  CHECK(priority == greatest);
  CHECK(least > greatest);
  CHECK(cudaEventRecord(begin, urgent) == cudaSuccess);
  CHECK(
      cudaLaunchHostFunc(
          urgent, [](void* data) { ++*static_cast<int*>(data); }, &ran) == cudaSuccess);
  CHECK(cudaEventRecord(end, urgent) == cudaSuccess);
  CHECK(cudaEventSynchronize(end) == cudaSuccess);
  CHECK(ran == 1);
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, end) == cudaSuccess);
  CHECK(milliseconds >= 0);
  CHECK(cudaStreamDestroy(urgent) == cudaSuccess);
  CHECK(std::string(cudaGetErrorName(cudaErrorIllegalAddress)) == "cudaErrorIllegalAddress");
  CHECK(std::string(cudaGetErrorString(cudaErrorNotReady)) == "device not ready");
}
