// Creation, fills and copies: every pair of types, strided and overlapping, on the CPU and between devices.
#include <numeric>
#include <vector>

#include <sluice/ndarray/api.h>
#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/array_object.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

const std::vector<DType> k_all_types{
    bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64};
const std::vector<double> k_values{0, 1, 2, 3.75, 100, 101.5, 7, 0.25, 64, 12, 0, 5};

NDArray values_of(DType type, const Shape& shape, Device device = cpu()) {
  std::vector<double> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = k_values[i % k_values.size()];
  return from_values(values.data(), float64, shape.size(), shape, {.dtype = type, .device = device});
}

/// The value of element i of values_of() seen as `to`, by way of `from`.
double expected(std::size_t i, DType from, DType to) {
  return by_any_dtype(from, [&]<class From>() {
    const From element = detail::convert<From>(k_values[i % k_values.size()]);
    return by_any_dtype(to, [&]<class To>() { return detail::convert<double>(detail::convert<To>(element)); });
  });
}

NDArray transposed(const NDArray& array) {
  return detail::make_view(
      array, {array.shape()[1], array.shape()[0]}, {array.strides()[1], array.strides()[0]}, array.object()->offset);
}

/// All pairs of types between two devices, packed and strided at either end.
void check_all_pairs(Device from_device, Device to_device) {
  for (const DType from : k_all_types) {
    for (const DType to : k_all_types) {
      CAPTURE(from, to);
      const NDArray source = values_of(from, {3, 4}, from_device);
      const NDArray packed = empty({3, 4}, {.dtype = to, .device = to_device});
      copy_into(source, packed);
      const NDArray turned = empty({4, 3}, {.dtype = to, .device = to_device});
      copy_into(source, transposed(turned));
      const auto plain = packed.to_vector<double>(), moved = turned.to_vector<double>();
      for (std::size_t i = 0; i < 12; ++i) {
        REQUIRE(plain[i] == expected(i, from, to));
        REQUIRE(moved[(i % 4) * 3 + i / 4] == expected(i, from, to));
      }
    }
  }
}

}  // namespace

TEST_CASE("New arrays have the shape, type and values that were asked for") {
  const NDArray a = full({2, 3}, 1.5);
  REQUIRE(a.shape() == Shape{2, 3});
  REQUIRE(a.dtype() == float32);
  REQUIRE(a.device() == cpu());
  REQUIRE(a.is_contiguous());
  REQUIRE(a.to_vector<float>() == std::vector<float>(6, 1.5f));
  REQUIRE(zeros({3}, {.dtype = int64}).to_vector<std::int64_t>() == std::vector<std::int64_t>(3, 0));
  REQUIRE(ones({2}, {.dtype = bool_}).to_vector<bool>() == std::vector<bool>{true, true});
  REQUIRE(ones_like(a).to_vector<float>() == std::vector<float>(6, 1.0f));
  REQUIRE(zeros_like(a).dtype() == float32);
  REQUIRE(array<int>({1, 2, 3}).to_vector<int>() == std::vector<int>{1, 2, 3});
  REQUIRE(array(std::vector<bool>{true, false}, {2}).to_vector<bool>() == std::vector<bool>{true, false});
  REQUIRE(full({}, 3).item<int>() == 3);
  REQUIRE(full({}, std::int64_t{1} << 60, {.dtype = int64}).item<std::int64_t>() == std::int64_t{1} << 60);
}

TEST_CASE("arange counts as NumPy does") {
  REQUIRE(arange(0, 5).to_vector<float>() == std::vector<float>{0, 1, 2, 3, 4});
  REQUIRE(arange(5, 0, -2, {.dtype = int32}).to_vector<int>() == std::vector<int>{5, 3, 1});
  REQUIRE(arange(0, 1, 0.3).size() == 4);
  REQUIRE(arange(3, 3).size() == 0);
  REQUIRE(arange(3, 1).size() == 0);
  REQUIRE_THROWS_AS(arange(0, 1, 0), ValueError);
  REQUIRE_THROWS_AS(arange(0, INFINITY), ValueError);
}

TEST_CASE("Bad requests for arrays are refused with a typed error") {
  REQUIRE_THROWS_AS(empty({2, -1}), ShapeError);
  REQUIRE_THROWS_AS(empty({std::int64_t{1} << 62, 4}), ShapeError);
  REQUIRE_THROWS_AS(empty({std::int64_t{1} << 61}), OutOfMemory);
  REQUIRE_THROWS_AS(empty({2}, {.device = cpu(1)}), DeviceError);
  REQUIRE_THROWS_AS(empty({2}, {.device = gpu(63)}), DeviceError);
  REQUIRE_THROWS_AS(empty({2}, {.device = gpu(0), .pinned = true}), ValueError);
  REQUIRE_THROWS_AS(array<float>({1, 2, 3}, {2, 2}), ShapeError);
  REQUIRE_THROWS_AS(NDArray().shape(), ValueError);
  REQUIRE_THROWS_AS(zeros({2}).item<float>(), ShapeError);
  REQUIRE_THROWS_AS(copy_into(zeros({2}), zeros({3})), ShapeError);
  const NDArray one = zeros({1});
  const NDArray stretched = detail::make_view(one, {4}, {0}, 0);
  REQUIRE_THROWS_AS(fill(stretched, 1), ValueError);
  REQUIRE_THROWS_AS(copy_into(zeros({4}), stretched), ValueError);
  const NDArray nothing = detail::make_view(one, {4, 0}, {0, 1}, 0);
  REQUIRE_NOTHROW(fill(nothing, 1));
  REQUIRE_NOTHROW(copy_into(zeros({4, 0}), nothing));
}

TEST_CASE("Every type is copied into every type, packed and strided") {
  check_all_pairs(cpu(), cpu());
}

TEST_CASE("Large strided copies agree with an index computation") {
  const NDArray a = arange(0, 210'000, 1, {.dtype = int32});
  const NDArray cube = detail::make_view(a, {70, 60, 50}, {3000, 50, 1}, 0);
  const NDArray turned = detail::make_view(a, {50, 60, 70}, {1, 50, 3000}, 0);
  const NDArray packed = empty({50, 60, 70}, {.dtype = int64});
  copy_into(turned, packed);
  const auto values = packed.to_vector<std::int64_t>();
  const auto direct = turned.to_vector<std::int64_t>();
  REQUIRE(values == direct);
  for (std::int64_t i = 0; i < 50; i += 7) {
    for (std::int64_t j = 0; j < 60; j += 7) {
      for (std::int64_t k = 0; k < 70; ++k)
        REQUIRE(values[static_cast<std::size_t>((i * 60 + j) * 70 + k)] == k * 3000 + j * 50 + i);
    }
  }
  const NDArray back = empty({70, 60, 50}, {.dtype = int32});
  copy_into(packed, detail::make_view(back, {50, 60, 70}, {1, 50, 3000}, 0));
  REQUIRE(back.to_vector<int>() == cube.to_vector<int>());
}

TEST_CASE("Fills and copies of views leave the rest alone") {
  const NDArray a = zeros({4, 4});
  fill(detail::make_view(a, {2, 2}, {8, 2}, 5), 7);
  REQUIRE(a.to_vector<int>() == std::vector<int>{0, 0, 0, 0, 0, 7, 0, 7, 0, 0, 0, 0, 0, 7, 0, 7});
  copy_into(array<float>({1, 2}), detail::make_view(a, {2}, {1}, 0));
  REQUIRE(a.to_vector<int>() == std::vector<int>{1, 2, 0, 0, 0, 7, 0, 7, 0, 0, 0, 0, 0, 7, 0, 7});
}

TEST_CASE("Copies between overlapping views act as if the source had been read first") {
  const NDArray a = arange(0, 8, 1, {.dtype = int32});
  copy_into(detail::make_view(a, {7}, {1}, 0), detail::make_view(a, {7}, {1}, 1));
  REQUIRE(a.to_vector<int>() == std::vector<int>{0, 0, 1, 2, 3, 4, 5, 6});
  const NDArray square = arange(0, 9, 1, {.dtype = int32});
  const NDArray m = detail::make_view(square, {3, 3}, {3, 1}, 0);
  copy_into(transposed(m), m);
  REQUIRE(m.to_vector<int>() == std::vector<int>{0, 3, 6, 1, 4, 7, 2, 5, 8});
  copy_into(m, m);
  REQUIRE(m.to_vector<int>() == std::vector<int>{0, 3, 6, 1, 4, 7, 2, 5, 8});
}

TEST_CASE("Arrays without elements are copied, filled and read without work") {
  Engine engine;
  const EngineScope scope(engine);
  const NDArray a = zeros({0, 3}), b = empty({0, 3}, {.dtype = int8});
  copy_into(a, b);
  REQUIRE(a.to_vector<float>().empty());
  REQUIRE(engine.counters().pushed == 0);
}

TEST_CASE("Writes raise the version of a buffer") {
  const NDArray a = empty({3});
  const auto version = [&] { return a.object()->buffer->version(); };
  const auto start = version();
  fill(a, 1);
  REQUIRE(version() == start + 1);
  copy_into(zeros({3}), a);
  REQUIRE(version() == start + 2);
}

TEST_CASE("A failed task's error reaches the reader of the array, and overwriting clears it") {
  const NDArray a = empty({4});
  a.engine().push({.name = "spoil", .access = {write(a.object()->buffer->var())}}, [] { throw ValueError("spoilt"); });
  const NDArray b = empty({4});
  copy_into(a, b);
  REQUIRE_THROWS_AS(b.to_vector<float>(), ValueError);
  REQUIRE_THROWS_AS(a.wait_to_read(), ValueError);
  fill(a, 2);
  REQUIRE(a.to_vector<float>() == std::vector<float>(4, 2.0f));
}

TEST_CASE("Memory of dropped arrays goes back to the pool") {
  Engine engine;
  const EngineScope scope(engine);
  {
    const NDArray a = zeros({1000}), view = detail::make_view(a, {10}, {1}, 0);
    a.wait_to_read();
    REQUIRE(memory_stats(cpu()).allocated == 4000);
  }
  engine.wait_all();
  REQUIRE(memory_stats(cpu()).allocated == 0);
  REQUIRE(memory_stats(cpu()).reserved > 0);
}

TEST_CASE("An array outlives its engine safely") {
  NDArray kept;
  {
    Engine engine;
    const EngineScope scope(engine);
    kept = ones({5});
  }
  REQUIRE(kept.shape() == Shape{5});
  REQUIRE_THROWS_AS(kept.to_vector<float>(), EngineStopped);
}

TEST_CASE("Pinned arrays are ordinary ones where there is no GPU") {
  const NDArray a = zeros({3}, {.pinned = true});
  REQUIRE(a.device() == cpu());
  const MemoryKind kind = a.object()->buffer->chunk().kind;
  REQUIRE(kind == (num_gpus() > 0 ? MemoryKind::pinned : MemoryKind::host));
  REQUIRE(a.to_vector<float>() == std::vector<float>(3, 0.0f));
}

TEST_CASE("Every type is copied into every type on a GPU, to it and from it", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_all_pairs(gpu(0), gpu(0));
  check_all_pairs(cpu(), gpu(0));
  check_all_pairs(gpu(0), cpu());
}

TEST_CASE("Copies between two GPUs", "[gpu]") {
  SLUICE_NEEDS_GPUS(2);
  check_all_pairs(gpu(0), gpu(1));
  const NDArray far = arange(0, 10'000'019, 1, {.dtype = int32, .device = gpu(1)});
  const NDArray here = empty(far.shape(), {.dtype = int32, .device = gpu(0)});
  copy_into(far, here);
  const NDArray back = empty(far.shape(), {.dtype = int32, .device = gpu(1)});
  copy_into(here, back);
  REQUIRE(back.to_vector<int>() == arange(0, 10'000'019, 1, {.dtype = int32}).to_vector<int>());
}

TEST_CASE("Large copies, strided copies and fills on a GPU agree with the CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray a = arange(0, 1'000'003, 1, {.dtype = int32});
  const NDArray on_gpu = empty(a.shape(), {.dtype = float32, .device = gpu(0)});
  copy_into(a, on_gpu);
  REQUIRE(on_gpu.to_vector<int>() == a.to_vector<int>());
  // Not aligned for packs of four, and strided in both directions.
  const NDArray shifted = detail::make_view(on_gpu, {999'999}, {1}, 3);
  REQUIRE(shifted.to_vector<int>() == detail::make_view(a, {999'999}, {1}, 3).to_vector<int>());
  const NDArray turned = detail::make_view(on_gpu, {50, 60, 70}, {1, 50, 3000}, 1);
  const NDArray packed = empty({50, 60, 70}, {.dtype = float16, .device = gpu(0)});
  copy_into(turned, packed);
  const NDArray same = empty({50, 60, 70}, {.dtype = float16});
  copy_into(detail::make_view(a, {50, 60, 70}, {1, 50, 3000}, 1), same);
  REQUIRE(packed.to_vector<float>() == same.to_vector<float>());
  for (const DType type : k_all_types) {
    const NDArray target = zeros({1001}, {.dtype = type, .device = gpu(0)});
    fill(detail::make_view(target, {500}, {2}, 1), 3);
    const NDArray on_cpu = zeros({1001}, {.dtype = type});
    fill(detail::make_view(on_cpu, {500}, {2}, 1), 3);
    REQUIRE(target.to_vector<double>() == on_cpu.to_vector<double>());
  }
}

TEST_CASE("Pinned memory carries values to a GPU and back many times", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (int round = 0; round < 50; ++round) {
    const NDArray host = full({1000}, round, {.pinned = true});
    const NDArray device = empty({1000}, {.device = gpu(0)});
    copy_into(host, device);
    fill(host, -1);  // ordered behind the copy, though the host never waited
    REQUIRE(device.to_vector<int>() == std::vector<int>(1000, round));
    REQUIRE(host.to_vector<int>() == std::vector<int>(1000, -1));
  }
  REQUIRE(arange(0, 100, 1, {.device = gpu(0)}).to_vector<float>() == arange(0, 100).to_vector<float>());
  REQUIRE(array<float>({1, 2}, gpu(0)).to_vector<float>() == std::vector<float>{1, 2});
  REQUIRE(full({}, 2.5, {.device = gpu(0)}).item<double>() == 2.5);
}
