// What arrays that the program has dropped hold until their tasks have run.
#include <atomic>
#include <thread>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/storage/api.h>

#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

constexpr std::uint64_t k_bytes = 256 * 256 * 4;

/// An engine whose one worker stands at a gate.
struct Standing {
  explicit Standing(std::uint64_t limit = 0) : engine({.workers = 1, .max_bytes_in_flight = limit}), scope(engine) {
    engine.push({.name = "gate"}, [inside = gate] { inside.wait(); });
    gate.reached();
  }
  std::uint64_t in_flight() const { return engine.counters().bytes_in_flight; }

  Gate gate;
  Engine engine;
  EngineScope scope;
  OpensAtEnd opens{gate};
};

}  // namespace

TEST_CASE("In flight: arrays that the program has dropped count until their tasks have run") {
  Standing at;
  const NDArray kept = zeros({256, 256});
  CHECK(at.in_flight() == 0);
  for (int i = 0; i < 10; ++i) {
    const NDArray copied = empty_like(kept);
    copy_into(kept, copied);
  }
  CHECK(at.in_flight() == 10 * k_bytes);
  {
    const NDArray view = detail::make_view(kept, {128, 256}, kept.strides(), kept.object()->offset);
    fill(view, 3);
  }
  const NDArray small = zeros({16});
  zeros({16});
  CHECK(at.in_flight() == 10 * k_bytes);  // a view is no array more, and 64 bytes are not counted
  at.gate.open();
  at.engine.wait_all();
  CHECK(at.in_flight() == 0);
  CHECK(at.engine.counters().peak_bytes_in_flight == 10 * k_bytes);
}

TEST_CASE("In flight: arrays that are dropped unused, or after their tasks, are free at once") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  for (int i = 0; i < 50; ++i) {
    empty({256, 256});
    const NDArray made = zeros({256, 256});
    made.wait_to_read();
    engine.wait_all();
  }
  CHECK(engine.counters().peak_bytes_in_flight == 0);
}

TEST_CASE("In flight: a loop over arrays that never waits stays within the limit of its memory") {
  Engine engine({.workers = 1, .max_bytes_in_flight = 8 * k_bytes});
  const EngineScope scope(engine);
  const NDArray source = zeros({256, 256});
  std::atomic<std::uint64_t> most{0};
  for (int i = 0; i < 300; ++i) {
    const NDArray copied = empty_like(source);
    copy_into(source, copied);
    most = std::max(most.load(), engine.counters().bytes_in_flight);
  }
  engine.wait_all();
  CHECK(most <= 9 * k_bytes);
  CHECK(engine.counters().bytes_in_flight == 0);
  CHECK(Storage::of(engine).pool(cpu()).stats().peak_active <= 12 * k_bytes);
}

TEST_CASE("In flight: values on their way to a busy GPU count too", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine({.workers = 1, .max_bytes_in_flight = 16 * k_bytes});
  const EngineScope scope(engine);
  const std::vector<float> values(256 * 256, 1.5f);
  std::uint64_t most = 0;
  for (int i = 0; i < 2000; ++i) {
    const NDArray there =
        from_values(values.data(), float32, 256 * 256, {256, 256}, {.dtype = float32, .device = gpu(0)});
    most = std::max(most, engine.counters().bytes_in_flight);
    if (i == 1999)
      CHECK(there.to_vector<float>() == values);
  }
  engine.wait_all();
  CHECK(most <= 18 * k_bytes);
  CHECK(engine.counters().bytes_in_flight == 0);
  CHECK(engine.counters().gpu_bytes_in_flight == 0);
  CHECK(Storage::of(engine).pool(cpu(), MemoryKind::pinned).stats().peak_reserved <= 32 * k_bytes);
}
