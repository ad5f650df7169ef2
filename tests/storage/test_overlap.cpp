// Copies and work side by side, as far as memory goes: a naive pipeline on streams of simulated time. What a chunk is
// pending on decides what runs beside what, so a pool that joins places too eagerly shows in the time it all takes.
#include <algorithm>
#include <map>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"

using namespace sluice;

namespace {

constexpr std::uint16_t k_work = 1, k_in = 2, k_out = 3;
constexpr std::size_t k_bytes = 64 << 10;  // of a batch

/// Streams with a clock; the host has come to `now`.
struct Timeline final : detail::Passage {
  double end_of(Position position) const { return ends.at(position.stream()).at(position.sequence() - 1); }
  bool passed(const PositionSet& positions) const noexcept override {
    return std::all_of(positions.begin(), positions.end(), [&](Position each) { return end_of(each) <= now; });
  }
  bool copies(Position position) const noexcept override { return position.stream() != k_work; }
  void wait_passed(const PositionSet& positions) override {
    for (Position position : positions)
      now = std::max(now, end_of(position));
  }
  void relieve(Device) override {}

  /// A task of `length` after what its chunk and its input are pending on, and after its stream.
  Position run(std::uint16_t stream, double length, const PositionSet& chunk, Position input) {
    std::vector<double>& of = ends[stream];
    double start = std::max(now, of.empty() ? 0 : of.back());
    for (Position position : chunk)
      start = std::max(start, end_of(position));
    if (input)
      start = std::max(start, end_of(input));
    of.push_back(start + length);
    return Position(stream, of.size());
  }
  double finish() {
    for (const auto& [stream, of] : ends)
      now = std::max(now, of.empty() ? 0 : of.back());
    return now;
  }

  double now = 0;
  std::map<std::uint16_t, std::vector<double>> ends;
};

/// `batches` batches in, through `steps` steps of length 1 with a new chunk each, and out; a copy lasts a third of the
/// work on a batch. Returns how much longer than the work alone it all took.
double run_pipeline(Timeline& time, Pool& pool, int batches, int steps) {
  constexpr double host = 0.1;  // for a task
  const double copy = steps / 3.0, begin = time.now;
  for (int batch = 0; batch < batches; ++batch) {
    Chunk x = pool.acquire(k_bytes, k_in, ChunkUse::copy_target);
    time.now += host;
    Position last = time.run(k_in, copy, x.pending, {});
    for (int step = 0; step < steps; ++step) {
      Chunk y = pool.acquire(k_bytes, k_work);
      time.now += host;
      last = time.run(k_work, 1, y.pending, last);
      x.pending.clear();
      x.pending.add(last);
      pool.release(std::move(x));
      x = std::move(y);
    }
    time.now += host;
    x.pending.clear();
    x.pending.add(time.run(k_out, copy, {}, last));
    pool.release(std::move(x));
  }
  return (time.finish() - begin) / (batches * steps) - 1;
}

}  // namespace

TEST_CASE("Copies stay hidden behind work whatever pool the memory is from") {
  for (const char* name : {"bucket", "split", "paged"}) {
    Timeline time;
    for (const std::uint16_t stream : {k_work, k_in, k_out})
      time.ends[stream];
    std::atomic<std::size_t> out{0};
    const auto pool = test::make_pool(time, std::size_t{1} << 26, out, name);
    run_pipeline(time, *pool, 10, 60);
    const double above = run_pipeline(time, *pool, 20, 60);
    INFO(name << ": " << above * 100 << " % above the work alone");
    REQUIRE(above < 0.06);  // the first copy in and the last one out are 3.3
    REQUIRE(pool->stats().peak_reserved <= 8 * k_bytes);
    pool->trim();
    REQUIRE(out == 0);
  }
}

TEST_CASE(
    "A loop that runs ahead of what copies its chunks goes round in a few, for all that the copies have not begun") {
  for (const char* name : {"bucket", "split", "paged"}) {
    CAPTURE(name);
    test::Clock never;
    std::atomic<std::size_t> out{0};
    const auto pool = test::make_pool(never, std::size_t{1} << 28, out, name);
    for (std::uint64_t step = 1; step <= 2000; ++step) {
      Chunk batch = pool->acquire(k_bytes), label = pool->acquire(k_bytes / 64);
      for (Chunk* chunk : {&batch, &label}) {
        chunk->pending.clear();
        chunk->pending.add(Position(test::Clock::k_first_copy_stream, step));
        pool->release(std::move(*chunk));
      }
    }
    CHECK(pool->stats().peak_reserved <= 8 * k_bytes);
    CHECK(never.waits == 0);
    never.now = 2000;
  }
}

TEST_CASE(
    "Memory that is used by what comes before the work that asks is taken, what later work uses is not preferred") {
  test::Clock clock;
  detail::SplitPool pool(clock, std::make_unique<test::AddressSource>(), {.merge_pending = false});
  Chunk chunks[2] = {pool.acquire(k_bytes), pool.acquire(k_bytes)};
  const void* const at[2] = {chunks[0].data, chunks[1].data};
  chunks[0].pending.add(Position(7, 5));
  chunks[1].pending.add(Position(8, 1));
  for (Chunk& chunk : chunks)
    pool.release(std::move(chunk));
  const auto taken = [&](WorkPlace work) {
    Chunk chunk = pool.acquire(k_bytes, work);
    const void* const data = chunk.data;
    pool.release(std::move(chunk));
    return data;
  };
  CHECK(taken(Position(7, 5)) == at[0]);
  CHECK(taken(Position(7, 9)) == at[0]);
  CHECK(taken(std::uint16_t{7}) == at[0]);
  CHECK(taken(std::uint16_t{8}) == at[1]);
  CHECK(taken(Position(8, 1)) == at[1]);
}
