// Large transfers in slices. Without a GPU the far end is host memory too: the order of tasks, views, failures and
// cancelling are the same.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/pipeline.h>

#include "tests/engine/policies.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::detail;
using namespace sluice::test;

namespace {

const std::vector<DType> k_all_types{
    bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64};
constexpr SliceSizes k_tiny{.from = 64, .smallest = 64, .largest = 512};

NDArray counting(const Shape& shape, DType type, Device device = cpu()) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<double>((i * 7) % 101);
  return from_values(values.data(), float64, shape.size(), shape, {.dtype = type, .device = device});
}

NDArray turned(const NDArray& array) {
  return make_view(array, {array.shape()[1], array.shape()[0]}, {array.strides()[1], array.strides()[0]}, 0);
}

/// to = from in slices of some 64 to 512 bytes; the end that is not the host's is contiguous.
TaskHandle copy_sliced(const NDArray& from, const NDArray& to, bool outward) {
  const ArrayObject &host = outward ? *to.object() : *from.object(), &far = outward ? *from.object() : *to.object();
  const auto slicing = slicing_of(host.shape, host.strides, host.dtype, far.dtype, k_tiny);
  REQUIRE(slicing);
  return push_sliced(
      to.engine(),
      {outward, far.dtype, host.data(), host.dtype, far.data(), far.device, *slicing},
      accesses_to_copy(*from.object(), *to.object()),
      SourceLocation::current());
}

}  // namespace

TEST_CASE("How large transfers are cut: some four slices within the limits, along the first axis") {
  const auto flat = [](std::int64_t n) { return slicing_of({n}, {1}, float32, float32); };
  constexpr std::int64_t mega = 1 << 20;
  CHECK_FALSE(flat(mega / 2 - 1));
  REQUIRE(flat(mega / 2));
  CHECK(flat(mega / 2)->count == 2);  // 2 MiB
  CHECK(flat(2 * mega)->count == 4);
  CHECK(flat(2 * mega)->rows == mega / 2);
  CHECK(flat(100 * mega)->rows == mega);  // 4 MiB
  CHECK(flat(100 * mega + 1)->count == 101);
  // No gaps: as one axis, whatever the shape. Gaps: by rows.
  CHECK(slicing_of({3, 1000, 1000}, {1'000'000, 1000, 1}, float32, float32)->shape == Shape{3'000'000});
  const auto rows = slicing_of({3000, 1000}, {2000, 1}, float32, float32);
  REQUIRE(rows);
  CHECK(rows->shape == Shape{3000, 1000});
  CHECK(rows->rows * 4000 <= 4 << 20);
  CHECK_FALSE(slicing_of({2, 3'000'000}, {4'000'000, 1}, float32, float32));  // a row is more than a slice
  // What counts is what is on the bus.
  CHECK(slicing_of({mega}, {1}, float64, float16));
  CHECK_FALSE(slicing_of({mega}, {1}, float64, int8));
  CHECK_FALSE(slicing_of({0}, {1}, float32, float32, k_tiny));
  for (std::int64_t n = 16; n < 3000; n += 37) {
    const auto cut = slicing_of({n}, {1}, float32, float32, k_tiny);
    if (cut)
      CHECK(((cut->count - 1) * cut->rows < n && cut->count * cut->rows >= n));
  }
}

TEST_CASE("Slices of every pair of types arrive, both ways, at packed and strided host ends") {
  for (const DType wire : k_all_types) {
    for (const DType type : k_all_types) {
      CAPTURE(wire, type);
      const NDArray far = counting({40, 60}, wire), wanted = empty({40, 60}, {.dtype = type});
      copy_into(far, wanted);
      const NDArray packed = zeros({40, 60}, {.dtype = type}), strided = zeros({60, 40}, {.dtype = type});
      copy_sliced(far, packed, true);
      copy_sliced(far, turned(strided), true);
      REQUIRE(packed.to_vector<double>() == wanted.to_vector<double>());
      REQUIRE(turned(strided).to_vector<double>() == wanted.to_vector<double>());
      const NDArray back = zeros({40, 60}, {.dtype = wire}), back_strided = zeros({40, 60}, {.dtype = wire});
      copy_sliced(packed, back, false);
      copy_sliced(turned(strided), back_strided, false);
      const NDArray again = empty({40, 60}, {.dtype = wire});
      copy_into(wanted, again);
      REQUIRE(back.to_vector<double>() == again.to_vector<double>());
      REQUIRE(back_strided.to_vector<double>() == again.to_vector<double>());
    }
  }
}

TEST_CASE("A transfer in slices is one task to others: they see all of it or nothing, whoever pushes meanwhile") {
  for (const CpuMode policy : k_all) {
    CAPTURE(to_string(policy));
    Engine engine({.workers = 3, .cpu_policy = policy});
    const EngineScope scope(engine);
    const NDArray far = zeros({5000}), near = zeros({5000});
    std::atomic<bool> stop{false};
    std::atomic<int> torn{0}, looked{0};
    std::thread writer([&] {
      const EngineScope inner(engine);
      for (int i = 0; i < 60; ++i)
        fill(far, i);
      stop = true;
    });
    std::thread reader([&] {
      const EngineScope inner(engine);
      do {
        const NDArray mine =
            empty({5000});  // values are read out after a wait, not in a task, so of an array of its own
        copy_into(near, mine);
        const auto seen = mine.to_vector<float>();
        torn += std::count(seen.begin(), seen.end(), seen.front()) == 5000 ? 0 : 1;
        ++looked;
      } while (!stop);
    });
    for (int i = 0; i < 40; ++i)
      copy_sliced(far, near, i % 4 != 3);
    writer.join();
    reader.join();
    REQUIRE(torn == 0);
    REQUIRE(looked > 0);
    copy_sliced(far, near, true);
    REQUIRE(near.to_vector<float>() == std::vector<float>(5000, 59));
  }
}

TEST_CASE("Many transfers pushed at once keep the order of pushes, and leave nothing behind") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  {
    const NDArray near = zeros({3000}), far = empty({3000}), there = empty({3000});
    for (int round = 0; round < 50; ++round) {
      fill(near, round);
      copy_sliced(near, far, false);
      copy_sliced(far, there, true);
      if (round % 10 == 9)
        REQUIRE(there.to_vector<int>() == std::vector<int>(3000, round));
    }
  }
  engine.wait_all();
  const bool pinned = num_gpus() > 0;
  REQUIRE(Storage::of(engine).pool(cpu(), pinned ? MemoryKind::pinned : MemoryKind::host).stats().allocated == 0);
}

TEST_CASE("A failed source leaves the target of slices untouched, and says why") {
  const NDArray far = zeros({2000}), near = full({3000}, 5);
  const NDArray part = make_view(near, {2000}, {1}, 500);
  far.engine().push({.name = "spoil", .access = accesses_to_write(*far.object())}, [] { throw ValueError("spoilt"); });
  copy_sliced(far, part, true);
  Engine& engine = near.engine();
  try {
    engine.wait(near.object()->buffer->var());
    FAIL("nothing was thrown");
  } catch (const ValueError& error) {
    engine.forgive(error);
  }
  REQUIRE(near.to_vector<int>() == std::vector<int>(3000, 5));  // stale, not lost: an update is missing
  copy_sliced(full({2000}, 6), part, true);
  REQUIRE(part.to_vector<int>() == std::vector<int>(2000, 6));
}

TEST_CASE("A transfer in slices that is cancelled ends, and the target is either whole or lost") {
  for (int round = 0; round < 40; ++round) {
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    const NDArray far = full({20'000}, 1), near = zeros({20'000});
    TaskHandle task = copy_sliced(far, near, round % 2 == 0);
    for (int i = 0; i < round * 50; ++i)
      std::this_thread::yield();
    task.cancel();
    std::vector<int> seen(20'000, 1);
    try {
      seen = near.to_vector<int>();
    } catch (const Cancelled&) {
    }
    REQUIRE(seen == std::vector<int>(20'000, 1));
    fill(near, 3);
    REQUIRE(near.to_vector<int>() == std::vector<int>(20'000, 3));
    copy_sliced(far, near, true);
    engine.stop(Stop::cancel);
  }
}

TEST_CASE("Large arrays go to a GPU and back in slices: types, views, both directions", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  constexpr std::int64_t rows = 1201, columns = 1103;  // 5 MiB of float32
  for (const DType type : {float32, int64, float16, uint8, bool_}) {
    CAPTURE(type);
    const NDArray here = counting({rows, columns}, type);
    const NDArray there = empty({rows, columns}, {.dtype = type, .device = gpu(0)});
    copy_into(here, there);
    REQUIRE(there.to_vector<double>() == here.to_vector<double>());
    const NDArray back = zeros({rows, columns}, {.dtype = type});
    copy_into(there, back);
    REQUIRE(back.to_vector<double>() == here.to_vector<double>());
    // A transposed host end, and a part of an array at the GPU's.
    const NDArray other = zeros({columns, rows}, {.dtype = float32});
    copy_into(there, turned(other));
    REQUIRE(turned(other).to_vector<double>() == here.to_vector<double>());
    const NDArray wide = zeros({rows, columns + 3}, {.dtype = float32, .device = gpu(0)});
    const NDArray part = make_view(wide, {rows, columns}, {columns + 3, 1}, 2);
    copy_into(turned(other), part);
    REQUIRE(part.to_vector<double>() == here.to_vector<double>());
    REQUIRE(make_view(wide, {rows, 2}, {columns + 3, 1}, 0).to_vector<int>() == std::vector<int>(2 * rows, 0));
  }
}

TEST_CASE("Sizes around the limits of slices, to a GPU and back", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const auto from = static_cast<std::int64_t>(SliceSizes{}.from);
  for (const std::int64_t n : {from - 1, from, from + 1, 2 * from + 255, 8 * from - 1, 8 * from, 17 * from + 3}) {
    CAPTURE(n);
    const NDArray here = counting({n}, uint8), back = zeros({n}, {.dtype = uint8});
    const NDArray there = empty({n}, {.dtype = uint8, .device = gpu(0)});
    copy_into(here, there);
    copy_into(there, back);
    const auto wanted = here.to_vector<std::uint8_t>();
    REQUIRE(back.to_vector<std::uint8_t>() == wanted);
    REQUIRE(there.to_vector<std::uint8_t>() == wanted);
  }
}

TEST_CASE("Large reads and writes of a GPU array: failures come through, many threads, many in a row", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine({.workers = 4});
  const EngineScope scope(engine);
  constexpr std::int64_t n = 2'000'000;
  const NDArray there = full({n}, 1, {.device = gpu(0)});
  engine.push({.name = "spoil", .device = gpu(0), .access = accesses_to_write(*there.object())}, [](Queue) {
    throw ValueError("spoilt");
  });
  REQUIRE_THROWS_AS(there.to_vector<float>(), ValueError);
  const NDArray near = empty({n});
  copy_into(there, near);
  REQUIRE_THROWS_AS(near.to_vector<float>(), ValueError);
  fill(there, 2);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      const EngineScope inner(engine);
      const NDArray mine = empty({n}, {.device = gpu(0)}), host = empty({n});
      for (int round = 0; round < 5; ++round) {
        fill(host, number * 100 + round);
        copy_into(host, mine);
        fill(host, -1);  // ordered behind the transfer
        wrong += mine.to_vector<int>() != std::vector<int>(n, number * 100 + round) ? 1 : 0;
        wrong += there.to_vector<int>() != std::vector<int>(n, 2) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  REQUIRE(wrong == 0);
}

TEST_CASE("A task that reads a large array which it holds itself is told so, and nothing is written later", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  constexpr std::int64_t n = 2'000'000;
  const NDArray there = full({n}, 1, {.device = gpu(0)});
  std::vector<float> to(n, -1.0f);
  std::atomic<bool> told{false};
  engine.push({.name = "holder", .access = accesses_to_write(*there.object())}, [&] {
    try {
      there.read_out(to.data(), float32, n);
    } catch (const Deadlock&) {
      told = true;
    }
  });
  engine.wait_all();
  REQUIRE(told);
  REQUIRE(to == std::vector<float>(n, -1.0f));
}
