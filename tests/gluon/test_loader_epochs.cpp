// What becomes of batches that a program does not come to, and of the times of one that never waits.
#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/gluon/support.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using namespace gluon::data;

namespace {

// Samples that cannot be read from one on; the first one stays readable, a loader asks for its shape.
struct FailingEpoch {
  std::int64_t from;
  std::shared_ptr<std::atomic<int>> tried = std::make_shared<std::atomic<int>>(0);
  std::shared_ptr<Gate> gate = {};  // opened before a bad sample throws

  std::int64_t size() const { return 64; }
  Sample sample_at(std::int64_t i) const {
    if (i >= from) {
      if (gate != nullptr)
        gate->wait();
      tried->fetch_add(1);
      throw std::runtime_error("row " + std::to_string(i) + " is bad");
    }
    return {HostArray(std::vector<float>(3), {3}), HostArray::scalar<std::int32_t>(0)};
  }
};

struct Case {
  const char* name;
  DataLoaderOptions options;
};

// Batches whose shapes are known, and batches that a function makes.
std::vector<Case> cases() {
  return {
      {"plain", {.batch_size = 8}},
      {"by a function", {.batch_size = 8, .batchify = batchify::Group(batchify::Stack(), batchify::Stack())}}};
}

void wait_until_tried(const FailingEpoch& data, int times) {
  while (data.tried->load() < times)
    std::this_thread::yield();
}

}  // namespace

TEST_CASE("Nobody hears of a bad batch that was prepared and never used", "[gluon][data]") {
  for (const auto& [name, options] : cases()) {
    DYNAMIC_SECTION(name) {
      Engine engine({.workers = 2});
      const EngineScope here(engine);
      const FailingEpoch data{.from = 8};
      {
        DataLoader loader(data, options);
        for (const Batch& batch : loader) {
          batch.data.wait_to_read();
          wait_until_tried(data, 2);  // bad batches are under way, or have failed
          break;
        }
      }
      CHECK_NOTHROW(engine.wait_all());
    }
  }
}

TEST_CASE("A bad batch may fail after its epoch was left, too", "[gluon][data]") {
  for (const auto& [name, options] : cases()) {
    DYNAMIC_SECTION(name) {
      Engine engine({.workers = 2});
      const EngineScope here(engine);
      FailingEpoch data{.from = 8};
      data.gate = std::make_shared<Gate>();
      {
        DataLoader loader(data, options);
        for (const Batch& batch : loader) {
          batch.data.wait_to_read();
          break;
        }
      }
      data.gate->open();
      CHECK_NOTHROW(engine.wait_all());
    }
  }
}

TEST_CASE("What was dropped before its turn is not read at all", "[gluon][data]") {
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  Gate gate;
  const FailingEpoch data{.from = 1};
  DataLoader loader(data, {.batch_size = 8});
  engine.push({.name = "holds the worker"}, [&] { gate.wait(); });
  { const auto epoch = loader.begin(); }
  gate.open();
  CHECK_NOTHROW(engine.wait_all());
  CHECK(data.tried->load() == 0);
}

TEST_CASE("A bad batch that the program was given is told of", "[gluon][data]") {
  Engine engine({.workers = 2});
  const EngineScope here(engine);
  const FailingEpoch data{.from = 8};
  {
    DataLoader loader(data, {.batch_size = 8, .prefetch = 0});
    int n = 0;
    for (const Batch& batch : loader) {
      CHECK(batch.count == 2);
      if (++n == 2)
        break;
    }
  }
  CHECK_THROWS_WITH(engine.wait_all(), contains("row 8 is bad"));
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("The error of a batch does not hide behind that of one that was dropped", "[gluon][data]") {
  Engine engine({.workers = 2});
  const EngineScope here(engine);
  const FailingEpoch data{.from = 8};
  DataLoader loader(data, {.batch_size = 8, .batchify = batchify::Group(batchify::Stack(), batchify::Stack())});
  std::string told;
  try {
    for (const Batch& batch : loader)
      batch.data.wait_to_read();
  } catch (const Error& error) {
    told = error.what();
  }
  CHECK_THAT(told, contains("row 8 is bad"));
  CHECK_NOTHROW(engine.wait_all());
}

TEST_CASE("A loop that never waits is timed until its batches are made", "[gluon][data]") {
  struct Slow {
    std::int64_t size() const { return 8; }
    Sample sample_at(std::int64_t) const {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      return {HostArray::scalar<float>(1)};
    }
  };
  Engine engine({.workers = 1});
  const EngineScope here(engine);
  DataLoader loader(Slow{}, {.batch_size = 2});
  int batches = 0;
  for (const Batch& batch : loader)
    batches += batch.count == 1 ? 1 : 0;
  engine.wait_all();
  const DataLoaderFigures figures = loader.figures();
  CHECK(batches == 4);
  CHECK(figures.samples == 8);
  CHECK(figures.seconds >= 0.9 * figures.worked_seconds);  // one worker: no two batches at once
  CHECK(figures.seconds >= 0.016);
  CHECK(figures.waited_seconds <= figures.seconds + 1e-9);
  CHECK(figures.samples_per_second() <= 500);
}
