// Random programs of several threads and streams on every pool, beside a model that knows what is on loan and which
// positions were left on every byte.
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"

using namespace sluice;
using test::Streams;

namespace {

/// Thread-safe. Faults are kept as text, for the test's main thread.
class Model {
 public:
  explicit Model(const Streams& streams) : streams_(streams) {}

  /// A chunk has been handed out for `stream`.
  void acquired(const Chunk& chunk, std::uint16_t stream) {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(chunk.data), end = begin + chunk.bytes;
    auto next = live_.lower_bound(begin);
    if (next != live_.end() && next->first < end)
      fail("a chunk overlaps the one behind it");
    if (next != live_.begin() && std::prev(next)->second > begin)
      fail("a chunk overlaps the one before it");
    live_[begin] = end;
    for (auto left = first_over(begin); left != left_.end() && left->first < end; ++left) {
      for (const Position position : left->second.positions)
        check(position, chunk, stream);
    }
  }
  /// A chunk is about to go back.
  void releasing(const Chunk& chunk) {
    const std::lock_guard lock(mutex_);
    const auto begin = reinterpret_cast<std::uintptr_t>(chunk.data), end = begin + chunk.bytes;
    live_.erase(begin);
    cut_at(begin);
    cut_at(end);
    left_.erase(left_.lower_bound(begin), left_.lower_bound(end));
    left_[begin] = {end, {chunk.pending.begin(), chunk.pending.end()}};
  }
  void fail(const char* what) {
    if (fault_.empty())
      fault_ = what;
  }
  void fail_locked(const char* what) {
    const std::lock_guard lock(mutex_);
    fail(what);
  }
  std::string fault() {
    const std::lock_guard lock(mutex_);
    return fault_;
  }

 private:
  struct Left {
    std::uintptr_t end = 0;
    std::vector<Position> positions;
  };
  using Map = std::map<std::uintptr_t, Left>;

  Map::iterator first_over(std::uintptr_t begin) {
    auto at = left_.upper_bound(begin);
    if (at != left_.begin() && std::prev(at)->second.end > begin)
      --at;
    return at;
  }
  void cut_at(std::uintptr_t where) {
    auto at = first_over(where);
    if (at == left_.end() || at->first >= where)
      return;
    left_[where] = at->second;
    at->second.end = where;
  }
  void check(Position position, const Chunk& chunk, std::uint16_t stream) {
    if (position.stream() == stream || streams_.done[position.stream()].load() >= position.sequence())
      return;
    for (const Position pending : chunk.pending) {
      if (pending.stream() == position.stream() && pending.sequence() >= position.sequence())
        return;
    }
    fail("a chunk came without a position that has not passed");
  }

  const Streams& streams_;
  std::mutex mutex_;
  std::map<std::uintptr_t, std::uintptr_t> live_;
  Map left_;
  std::string fault_;
};

struct Program {
  Pool& pool;
  Streams& streams;
  Model& model;
  std::atomic<std::uint64_t>* issued;  // of each stream
  int steps;
  std::atomic<int> refused{0};

  void run(unsigned seed) {
    std::mt19937 random(seed);
    std::vector<Chunk> mine;
    const auto poison = static_cast<unsigned char>(seed * 37 + 1);
    for (int step = 0; step < steps; ++step) {
      const auto stream = static_cast<std::uint16_t>(1 + random() % (Streams::k_count - 1));
      if (mine.size() < 30 && random() % 5 < 3) {
        take(mine, 1 + random() % (random() % 4 == 0 ? 40'000 : 1500), stream, poison);
      } else if (!mine.empty()) {
        std::swap(mine[random() % mine.size()], mine.back());
        give(mine, random() % 3 != 0, stream, poison);
      }
      if (random() % 8 == 0)
        streams.reach(stream, issued[stream].load() * (random() % 4) / 3);
      if (random() % 400 == 0)
        pool.trim();
    }
    while (!mine.empty())
      give(mine, true, 1, poison);
  }

  void take(std::vector<Chunk>& mine, std::size_t bytes, std::uint16_t stream, unsigned char poison) {
    try {
      Chunk chunk = pool.acquire(bytes, stream);
      model.acquired(chunk, stream);
      std::memset(chunk.data, poison, chunk.bytes);
      mine.push_back(std::move(chunk));
    } catch (const OutOfMemory&) {
      ++refused;  // a small pool: the program goes on
    }
  }

  /// After a task on `stream`, which waited for what was pending, or unused.
  void give(std::vector<Chunk>& mine, bool used, std::uint16_t stream, unsigned char poison) {
    Chunk& chunk = mine.back();
    const auto* bytes = static_cast<const unsigned char*>(chunk.data);
    for (std::size_t i = 0; i < chunk.bytes; ++i) {
      if (bytes[i] != poison) {
        model.fail_locked("somebody else wrote to a chunk on loan");
        break;
      }
    }
    if (used) {
      chunk.pending.clear();
      chunk.pending.add(Position(stream, ++issued[stream]));
    }
    model.releasing(chunk);
    pool.release(std::move(chunk));
    mine.pop_back();
  }
};

void run_programs(const char* name, std::size_t limit, unsigned seed, int steps) {
  Streams streams;
  std::atomic<std::uint64_t> issued[Streams::k_count]{};
  std::atomic<std::size_t> out{0};
  {
    const auto pool = test::make_pool(streams, std::size_t{1} << 28, out, name);
    pool->set_limit(limit);
    if (seed % 2 == 0)
      pool->record_history(100);
    Model model(streams);
    Program program{*pool, streams, model, issued, steps};
    std::vector<std::thread> threads;
    for (unsigned i = 0; i < 4; ++i)
      threads.emplace_back([&program, seed, i] { program.run(seed * 10 + i); });
    for (std::thread& thread : threads)
      thread.join();
    INFO(name << ", seed " << seed << ", limit " << limit);
    REQUIRE(model.fault() == "");
    const MemoryStats stats = pool->stats();
    REQUIRE(stats.active == 0);
    REQUIRE(stats.allocated == 0);
    REQUIRE(stats.allocations == stats.releases);
    REQUIRE(stats.out_of_memory == static_cast<std::uint64_t>(program.refused));
    if (limit != 0) {
      REQUIRE(stats.peak_reserved <= limit);
      REQUIRE((name == std::string("direct") || stats.retries + stats.out_of_memory > 0));
    } else {
      REQUIRE(program.refused == 0);
    }
    for (std::uint16_t stream = 0; stream < Streams::k_count; ++stream)
      streams.reach(stream, issued[stream]);
    pool->trim();
    REQUIRE(pool->stats().reserved == 0);
    REQUIRE(pool->stats().segments == 0);
  }
  REQUIRE(out == 0);
}

}  // namespace

TEST_CASE("No two owners share a byte, and no position is lost, whatever threads and streams do") {
  for (const char* name : {"bucket", "direct", "split", "paged"}) {
    for (unsigned seed = 1; seed <= 3; ++seed)
      run_programs(name, 0, seed, 3000);
  }
}

TEST_CASE("The same under a limit that is always reached") {
  for (const char* name : {"bucket", "direct", "split", "paged"}) {
    for (unsigned seed = 1; seed <= 3; ++seed)
      run_programs(name, 300'000, seed, 2000);
  }
}
