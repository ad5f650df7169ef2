// Small GPU arrays on the host: every type, sizes around the limits, views, failures, many threads.
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include <sluice/engine/detail/engine_access.h>
#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/small_read.h>

#include "tests/engine/policies.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

const std::vector<DType> k_all_types{
    bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64};

/// 0, 1, ... 99, 0, 1, ... exact in every type but bool.
NDArray counting(DType type, std::int64_t n, Device device) {
  std::vector<double> values(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>(i % 100);
  return from_values(values.data(), float64, n, {n}, {.dtype = type, .device = device});
}

}  // namespace

TEST_CASE("What counts as a small read: GPU arrays of up to 4096 bytes") {
  const auto small = [](DType type, std::int64_t n) {
    detail::ArrayObject array;
    array.dtype = type;
    array.size = n;
    array.device = gpu(0);
    return detail::is_small_read(array);
  };
  CHECK(small(float32, 1));
  CHECK(small(float32, 1024));
  CHECK_FALSE(small(float32, 1025));
  CHECK(small(uint8, 4096));
  CHECK_FALSE(small(uint8, 4097));
  CHECK(small(float64, 512));
  CHECK_FALSE(small(float64, 513));
  CHECK_FALSE(small(float32, 0));
  CHECK_FALSE(small(float32, std::int64_t{1} << 62));
  detail::ArrayObject on_host;
  on_host.size = 1;
  CHECK_FALSE(detail::is_small_read(on_host));
}

TEST_CASE("Values of every type and size around the limits come from a GPU as they are", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType type : k_all_types) {
    const auto limit = static_cast<std::int64_t>(detail::ReadSlot::k_bytes / size_of(type));
    for (const std::int64_t n :
         {std::int64_t{1},
          std::int64_t{2},
          std::int64_t{3},
          std::int64_t{17},
          limit / 8 - 1,
          limit / 8,
          limit / 8 + 1,
          limit - 1,
          limit,
          limit + 1}) {
      CAPTURE(type, n);
      const NDArray there = counting(type, n, gpu(0)), here = counting(type, n, cpu());
      REQUIRE(there.to_vector<double>() == here.to_vector<double>());
      REQUIRE(there.to_vector<std::int64_t>() == here.to_vector<std::int64_t>());
      REQUIRE(there.to_vector<bool>() == here.to_vector<bool>());
    }
    REQUIRE(full({}, 3, {.dtype = type, .device = gpu(0)}).item<float>() == (type == bool_ ? 1 : 3));
  }
}

TEST_CASE("A small read gives float values as they are, also not finite ones", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const float infinite = INFINITY;
  REQUIRE(
      array<float>({-0.0f, infinite, -infinite, 1e-40f}, gpu(0)).to_vector<float>() ==
      std::vector<float>{-0.0f, infinite, -infinite, 1e-40f});
  REQUIRE(std::isnan(array<float>({NAN}, gpu(0)).item<float>()));
  REQUIRE(std::signbit(array<float>({-0.0f}, gpu(0)).item<float>()));
}

TEST_CASE("Views are read in small as they are seen: any offset, any strides", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType type : k_all_types) {
    const NDArray there = counting(type, 900, gpu(0)), here = counting(type, 900, cpu());
    CAPTURE(type);
    for (const std::int64_t offset : {0, 1, 2, 3, 5, 8, 13}) {
      const auto scalar = [&](const NDArray& of) { return detail::make_view(of, {}, {}, offset + 40).item<double>(); };
      const auto row = [&](const NDArray& of) { return detail::make_view(of, {33}, {1}, offset).to_vector<double>(); };
      const auto column = [&](const NDArray& of) {
        return detail::make_view(of, {7, 11}, {2, 70}, offset).to_vector<double>();
      };
      const auto stretched = [&](const NDArray& of) {
        return detail::make_view(of, {3, 5}, {0, 1}, offset).to_vector<double>();
      };
      REQUIRE(scalar(there) == scalar(here));
      REQUIRE(row(there) == row(here));
      REQUIRE(column(there) == column(here));
      REQUIRE(stretched(there) == stretched(here));
    }
  }
}

TEST_CASE("A small read throws what the producer threw, and an overwritten array reads again", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray a = full({4}, 1, {.device = gpu(0)});
  a.engine().push({.name = "spoil", .device = gpu(0), .access = {write(a.object()->buffer->var())}}, [](Queue) {
    throw ValueError("spoilt");
  });
  REQUIRE_THROWS_AS(a.to_vector<float>(), ValueError);
  REQUIRE_THROWS_AS(a.to_vector<float>(), ValueError);
  REQUIRE_THROWS_AS(detail::make_view(a, {2}, {2}, 1).to_vector<float>(), ValueError);
  fill(a, 2);
  REQUIRE(a.to_vector<float>() == std::vector<float>(4, 2.0f));
}

TEST_CASE("A small read waits for a producer on the CPU that takes longer than anybody spins", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const NDArray host = full({3}, 7, {.pinned = true}), a = empty({3}, {.device = gpu(0)});
  a.to_vector<float>();
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "slow", .access = {write(host.object()->buffer->var())}}, [gate] { gate.wait(); });
  copy_into(host, a);
  std::atomic<bool> done{false};
  std::vector<float> got;
  std::thread reader([&] {
    got = a.to_vector<float>();
    done = true;
  });
  const bool reached = gate.reached();
  const bool early = done;
  gate.open();
  reader.join();
  REQUIRE(reached);
  REQUIRE_FALSE(early);
  REQUIRE(got == std::vector<float>(3, 7.0f));
}

TEST_CASE("A task that reads in small what it holds itself is told so instead of hanging", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  const NDArray a = full({3}, 7, {.device = gpu(0)});
  std::atomic<bool> told{false};
  engine.push({.name = "holder", .access = {write(a.object()->buffer->var())}}, [&] {
    try {
      a.item<float>();
    } catch (const ShapeError&) {
    }
    try {
      a.to_vector<float>();
    } catch (const Deadlock&) {
      told = true;
    }
  });
  engine.wait_all();
  REQUIRE(told);
  REQUIRE(a.to_vector<float>() == std::vector<float>(3, 7.0f));
}

TEST_CASE("Later writes leave an earlier small read alone, and reads see all earlier writes", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray a = full({100}, 0, {.device = gpu(0)});
  for (int round = 0; round < 500; ++round) {
    fill(a, round);
    REQUIRE(a.to_vector<int>() == std::vector<int>(100, round));
  }
}

TEST_CASE("Several threads read in small at once, each its own values", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine;
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  const NDArray shared = [&] {
    const EngineScope scope(engine);
    return arange(0, 64, 1, {.device = gpu(0)});
  }();
  const std::vector<int> wanted = shared.to_vector<int>();
  for (int number = 0; number < 6; ++number) {
    threads.emplace_back([&, number] {
      const EngineScope scope(engine);
      const NDArray mine = empty({33}, {.dtype = int32, .device = gpu(0)});
      for (int round = 0; round < 200; ++round) {
        fill(mine, number * 1000 + round);
        wrong += mine.to_vector<int>() != std::vector<int>(33, number * 1000 + round) ? 1 : 0;
        wrong += shared.to_vector<int>() != wanted ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  REQUIRE(wrong == 0);
}

TEST_CASE("After a small read the memory behind it counts as passed", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine;
  const EngineScope scope(engine);
  const NDArray a = full({100}, 5, {.device = gpu(0)});
  Position position;
  engine.push({.name = "note", .device = gpu(0), .access = {write(a.object()->buffer->var())}}, [&](Queue queue) {
    position = queue.position();
  });
  REQUIRE(a.to_vector<int>() == std::vector<int>(100, 5));
  PositionSet positions;
  positions.add(position);
  REQUIRE(detail::EngineAccess::passed(engine, positions));
}

TEST_CASE("Small reads under every pair of policies", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const CpuMode cpu_policy : k_all) {
    for (const GpuMode gpu_policy : {GpuMode::stream, GpuMode::serial}) {
      CAPTURE(to_string(cpu_policy), to_string(gpu_policy));
      Engine engine({.workers = 2, .cpu_policy = cpu_policy, .gpu_policy = gpu_policy});
      const EngineScope scope(engine);
      const NDArray a = arange(0, 50, 1, {.device = gpu(0)});
      const NDArray b = arange(0, 50);
      for (int round = 0; round < 20; ++round)
        REQUIRE(a.to_vector<int>() == b.to_vector<int>());
    }
  }
}
