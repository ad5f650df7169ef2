// What a pool tells of itself.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include <nlohmann/json.hpp>

#include <sluice/engine/api.h>
#include <sluice/storage/api.h>

#include "tests/storage/fakes.h"
#include "tests/support/catch.h"

using namespace sluice;
using test::Clock;
using test::make_pool;

TEST_CASE("A snapshot is JSON that adds up") {
  for (const char* name : {"bucket", "direct", "split", "paged"}) {
    Clock clock;
    std::atomic<std::size_t> out{0};
    const auto pool = make_pool(clock, 1 << 22, out, name);
    pool->record_history(1000);
    Chunk a = pool->acquire(3000), b = pool->acquire(100), c = pool->acquire(50'000);
    c.pending.add(Position(4, 99));
    pool->release(std::move(c));
    const auto json = nlohmann::json::parse(to_json(pool->snapshot()));
    REQUIRE(json["pool"] == name);
    REQUIRE(json["device"] == "cpu(0)");
    std::size_t reserved = 0, active = 0, requested = 0, pending = 0;
    for (const auto& segment : json["segments"]) {
      std::size_t inside = 0;
      for (const auto& block : segment["blocks"]) {
        REQUIRE(block["address"].get<std::size_t>() == segment["address"].get<std::size_t>() + inside);
        inside += block["bytes"].get<std::size_t>();
        if (block["state"] == "live")
          active += block["bytes"].get<std::size_t>();
        requested += block["requested"].get<std::size_t>();
        for (const auto& position : block["pending"]) {
          REQUIRE(block["state"] == "pending");
          REQUIRE(position == nlohmann::json({4, 99}));
          ++pending;
        }
      }
      REQUIRE(inside == segment["bytes"].get<std::size_t>());
      reserved += inside;
    }
    REQUIRE(pending == 1);
    REQUIRE(requested == 3100);
    REQUIRE(json["stats"]["allocated"] == 3100);
    REQUIRE(json["stats"]["active"] == active);
    REQUIRE(json["stats"]["reserved"] == reserved);
    std::size_t acquires = 0, releases = 0;
    for (const auto& event : json["history"]) {
      acquires += event["event"] == "acquire";
      releases += event["event"] == "release";
    }
    REQUIRE(acquires == 3);
    REQUIRE(releases == 1);
    pool->release(std::move(a));
    pool->release(std::move(b));
  }
}

TEST_CASE("History is a ring, off until asked for") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 22, out, "split");
  pool->release(pool->acquire(100));
  REQUIRE(pool->snapshot().history.empty());
  pool->record_history(5);
  for (std::size_t i = 1; i <= 10; ++i)
    pool->release(pool->acquire(i * 2));
  const MemorySnapshot snapshot = pool->snapshot();
  REQUIRE(snapshot.history.size() == 5);
  REQUIRE(snapshot.events_lost == 15);
  REQUIRE(snapshot.history.back().kind == MemoryEvent::Kind::release);
  REQUIRE(snapshot.history.back().requested == 20);
  REQUIRE(snapshot.history.front().requested == 16);
  for (std::size_t i = 1; i < 5; ++i)
    REQUIRE(snapshot.history[i].time_ns >= snapshot.history[i - 1].time_ns);
  pool->record_history(0);
  pool->release(pool->acquire(100));
  REQUIRE(pool->snapshot().history.empty());
  pool->record_history(3);  // anew: nothing of before stands in it, or was lost
  REQUIRE(pool->snapshot().history.empty());
  pool->release(pool->acquire(100));
  REQUIRE(pool->snapshot().history.size() == 2);
  REQUIRE(pool->snapshot().events_lost == 0);
}

TEST_CASE("A picture shows every lifetime, those before the history too") {
  Clock clock;
  std::atomic<std::size_t> out{0};
  const auto pool = make_pool(clock, 1 << 22, out, "split");
  Chunk before = pool->acquire(5000);
  pool->record_history(100);
  Chunk a = pool->acquire(3000), b = pool->acquire(100);
  pool->release(std::move(before));
  pool->release(std::move(a));
  REQUIRE_THROWS_AS(pool->acquire(std::size_t{1} << 40), OutOfMemory);
  const std::string page = to_html(pool->snapshot());
  std::size_t lives = 0;
  for (std::size_t at = page.find("class=\"life\""); at != std::string::npos; at = page.find("class=\"life\"", at + 1))
    ++lives;
  REQUIRE(lives == 3);
  REQUIRE(page.find("class=\"out\"") != std::string::npos);
  REQUIRE(page.find("</html>") != std::string::npos);
  REQUIRE(page.find("class=\"live\"") != std::string::npos);
  REQUIRE(page.find("class=\"free\"") != std::string::npos);
  pool->release(std::move(b));
}

TEST_CASE("The current engine's memory is told by device") {
  Engine engine;
  const EngineScope scope(engine);
  record_memory_history(cpu(), 10);
  Chunk chunk = Storage::of(engine).pool(cpu()).acquire(std::size_t{3} << 20);
  const std::string text = memory_summary(cpu());
  INFO(text);
  REQUIRE(text.find("host memory of cpu(0), pool bucket") != std::string::npos);
  REQUIRE(text.find("allocated           3.00 MiB   peak     3.00 MiB") != std::string::npos);
  REQUIRE(nlohmann::json::parse(memory_snapshot(cpu()))["history"].size() == 2);
  const std::string path = "memory_picture_test.html";
  save_memory_picture(cpu(), path);
  std::ifstream file(path);
  const std::string page{std::istreambuf_iterator<char>(file), {}};
  REQUIRE(page.find("Lifetimes") != std::string::npos);
  std::remove(path.c_str());
  REQUIRE_THROWS_AS(save_memory_picture(cpu(), "/no/such/folder/picture.html"), FileError);
  REQUIRE_THROWS_AS(save_memory_picture(cpu(), "/dev/full"), FileError);
  chunk.pool->release(std::move(chunk));
}
