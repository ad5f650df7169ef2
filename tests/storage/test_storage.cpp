// The pools of an engine: choice of strategy, devices, kinds of memory.
#include <atomic>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>

#include <sluice/engine/api.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/storage/api.h>

#include "tests/engine/policies.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;

TEST_CASE("Every strategy hands out memory that can be written, and takes it back") {
  for (const std::string& name : pool_names()) {
    Engine engine;
    Storage& storage = Storage::of(engine);
    storage.configure({.host = name, .pinned = name, .device = name});
    Pool& pool = storage.pool(cpu());
    REQUIRE(pool.name() == name);
    for (const std::size_t bytes : {1u, 64u, 65u, 4096u, 100'000u, 3'000'000u}) {
      Chunk chunk = pool.acquire(bytes);
      REQUIRE(chunk.bytes >= bytes);
      REQUIRE(chunk.kind == MemoryKind::host);
      std::memset(chunk.data, 0x5a, bytes);
      pool.release(std::move(chunk));
    }
    REQUIRE(pool.stats().active == 0);
    storage.empty_cache(cpu());
    REQUIRE(pool.stats().reserved == 0);
  }
}

TEST_CASE("A strategy is chosen before its pool is used") {
  Engine engine;
  Storage& storage = Storage::of(engine);
  REQUIRE(&storage == &Storage::of(engine));
  REQUIRE_THROWS_AS(storage.configure({.host = "buckets"}), ValueError);
  storage.configure({.host = "direct"});
  REQUIRE(storage.pool(cpu()).name() == "direct");
  REQUIRE_THROWS_AS(storage.configure({.host = "bucket"}), ValueError);
  storage.configure({.host = "direct", .device = "direct"});  // no change of what is in use
  REQUIRE(&storage.pool(cpu()) == &storage.pool(cpu(), MemoryKind::host));
}

TEST_CASE("A kind of memory belongs to a kind of device, and the device is there") {
  Engine engine;
  Storage& storage = Storage::of(engine);
  REQUIRE_THROWS_AS(storage.pool(cpu(), MemoryKind::device), ValueError);
  REQUIRE_THROWS_AS(storage.pool(gpu(0), MemoryKind::host), ValueError);
  REQUIRE_THROWS_AS(storage.pool(gpu(1000)), DeviceError);
  REQUIRE_THROWS_AS(storage.pool(gpu(num_gpus())), DeviceError);
  if (num_gpus() == 0) {
    REQUIRE_THROWS_AS(storage.pool(cpu(), MemoryKind::pinned), DeviceError);
  }
}

TEST_CASE("Memory pressure gives back what is cached") {
  Engine engine;
  Pool& pool = Storage::of(engine).pool(cpu());
  pool.release(pool.acquire(1 << 20));
  REQUIRE(pool.stats().reserved == 1 << 20);
  detail::EngineAccess::relieve_memory(engine, cpu());
  REQUIRE(pool.stats().reserved == 0);
}

TEST_CASE("Statistics speak of the current engine") {
  Engine engine;
  const EngineScope scope(engine);
  Chunk chunk = Storage::of(engine).pool(cpu()).acquire(5000);
  REQUIRE(memory_stats(cpu()).allocated == 5000);
  chunk.pool->release(std::move(chunk));
  REQUIRE(empty_cache(cpu()) == memory_stats(cpu()).peak_reserved);
}

TEST_CASE("A chunk may come back after its engine has gone") {
  auto engine = std::make_optional<Engine>();
  const Var keeps_core = engine->new_var();
  Chunk chunk = Storage::of(*engine).pool(cpu()).acquire(1000);
  engine.reset();
  chunk.pool->release(std::move(chunk));
  REQUIRE_FALSE(chunk);  // NOLINT: a released chunk is empty
}

TEST_CASE("Only GPUs that are there can be connected") {
  Engine engine;
  Storage& storage = Storage::of(engine);
  REQUIRE_THROWS_AS(storage.connect(gpu(0), gpu(num_gpus())), DeviceError);
  REQUIRE_THROWS_AS(storage.connect(cpu(), gpu(num_gpus())), DeviceError);
  REQUIRE_THROWS_AS(storage.connect(gpu(-1), gpu(0)), DeviceError);
}

TEST_CASE("GPU and pinned memory come from their own pools", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const std::string& name : pool_names(MemoryKind::device)) {
    Engine engine;
    Storage& storage = Storage::of(engine);
    const std::vector<std::string> hosts = pool_names();
    const std::string host = std::find(hosts.begin(), hosts.end(), name) == hosts.end() ? "bucket" : name;
    storage.configure({.host = host, .pinned = host, .device = name});
    Pool& device = storage.pool(gpu(0));
    Chunk a = device.acquire(1000);
    REQUIRE(a.device == gpu(0));
    REQUIRE(a.kind == MemoryKind::device);
    REQUIRE(reinterpret_cast<std::uintptr_t>(a.data) % 256 == 0);
    Chunk large = device.acquire((2u << 20) + 1);
    REQUIRE(large.bytes % 256 == 0);
    Pool& pinned = storage.pool(cpu(), MemoryKind::pinned);
    Chunk b = pinned.acquire(1000);
    REQUIRE(b.kind == MemoryKind::pinned);
    std::memset(b.data, 1, 1000);
    device.release(std::move(a));
    device.release(std::move(large));
    pinned.release(std::move(b));
    storage.empty_cache(gpu(0));
    storage.empty_cache(cpu());
    REQUIRE(device.stats().reserved == 0);
    REQUIRE(pinned.stats().reserved == 0);
  }
}

TEST_CASE("More memory than a GPU has is out of memory, and the next request is served", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine;
  Pool& pool = Storage::of(engine).pool(gpu(0));
  pool.release(pool.acquire(64 << 20));
  REQUIRE_THROWS_AS(pool.acquire(std::size_t{1} << 50), OutOfMemory);
  REQUIRE(pool.stats().trims >= 1);
  Chunk chunk = pool.acquire(4096);
  REQUIRE(chunk.data != nullptr);
  pool.release(std::move(chunk));
}

TEST_CASE("Storage goes on in the tasks of an engine that one of them has destroyed") {
  alignas(Engine) std::byte room[sizeof(Engine)];
  auto* const engine = ::new (static_cast<void*>(room)) Engine({.workers = 2});
  Storage& storage = Storage::of(*engine);
  Pool& pool = storage.pool(cpu());
  Var x = engine->new_var();
  std::atomic<bool> refused{false}, served{false}, ended{false};
  engine->push({.name = "destroys", .access = {write(x)}}, [&] {
    engine->~Engine();
    std::memset(room, 0xff, sizeof room);  // its place is another's now
    try {
      pool.acquire(std::size_t{1} << 60);  // which asks the engine for help
    } catch (const OutOfMemory&) {
      refused = true;
    }
    Chunk chunk = pool.acquire(4096);
    served = chunk.data != nullptr;
    pool.release(std::move(chunk));
    Engine::current().push({.name = "after", .access = {write(x)}}, [&] { ended = true; });
  });
  const auto is_gone = [&] {
    try {
      x.engine();
      return false;
    } catch (const EngineStopped&) {
      return true;
    }
  };
  REQUIRE(test::eventually(is_gone));
  REQUIRE(refused);
  REQUIRE(served);
  REQUIRE(ended);
}

TEST_CASE(
    "T48: a body that runs out of memory is served from caches, once; without any it fails, and the engine goes on") {
  constexpr std::size_t k_mebibyte = 1 << 20;
  for (const CpuMode mode : test::k_all) {
    INFO(to_string(mode));
    Engine engine({.workers = 2, .cpu_policy = mode});
    Storage& storage = Storage::of(engine);
    storage.configure({.host = "bucket", .host_limit = 8 * k_mebibyte});
    Pool& pool = storage.pool(cpu());
    const Var x = engine.new_var(), y = engine.new_var();
    int bodies = 0, readers = 0;
    const auto take = [&] {
      ++bodies;
      Chunk chunk = pool.acquire(6 * k_mebibyte);
      std::memset(chunk.data, 1, chunk.bytes);
      pool.release(std::move(chunk));
    };
    pool.release(pool.acquire(3 * k_mebibyte));  // cached
    engine.push({.name = "served", .access = {write(x)}}, take);
    REQUIRE_NOTHROW(engine.wait(x));
    REQUIRE(pool.stats().trims == 1);
    REQUIRE(pool.stats().retries == 1);

    storage.empty_cache(cpu());
    Chunk held = pool.acquire(3 * k_mebibyte);
    engine.push({.name = "fails", .access = {write(x)}}, take);
    engine.push({.name = "reads", .access = {read(x), out(y)}}, [&] { ++readers; });
    REQUIRE_THROWS_AS(engine.wait(x), OutOfMemory);
    REQUIRE_THROWS_AS(engine.wait(y), OutOfMemory);
    REQUIRE(pool.stats().trims == 2);
    REQUIRE(pool.stats().retries == 1);
    REQUIRE(pool.stats().out_of_memory == 1);

    pool.release(std::move(held));
    engine.push({.name = "served again", .access = {out(x)}}, take);
    engine.push({.name = "reads again", .access = {read(x), out(y)}}, [&] { ++readers; });
    REQUIRE_NOTHROW(engine.wait(y));
    REQUIRE(pool.stats().retries == 2);
    REQUIRE(bodies == 3);
    REQUIRE(readers == 1);
  }
}
