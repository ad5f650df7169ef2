// Arrays whose memory is several regions: work on one part goes by work on another, and all else is as before.
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

/// An array that is not there before the gate is open.
NDArray behind(const Gate& gate, const Shape& shape, float value) {
  const NDArray made = zeros(shape);
  made.engine().push(
      {.name = "gated", .access = {write(made.object()->buffer->var())}}, [=, to = made.object()->data()] {
        gate.wait();
        for (std::int64_t i = 0; i < shape.size(); ++i)
          reinterpret_cast<float*>(to)[i] = value;
      });
  return made;
}

// Writes and reads of parts and of all of x, on its device.
std::vector<float> worked_on(const NDArray& x, std::int64_t parts) {
  if (parts > 0)
    x.partition(0, parts);
  const std::vector<NDArray> pieces = split(x, 4);
  for (int round = 0; round < 3; ++round) {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      pieces[i].assign(pieces[(i + 1) % 4] * 2 + static_cast<double>(i));
    x.slice(0, 3, 9).assign(x.slice(0, 2, 8));  // across all
    x.slice(0, 0, 8, 3).assign(1);
    x.assign({{{}, {}, -1}, 0}, x[{{}, 1}]);
    pieces[2].assign(x.to(cpu()).slice(0, 1, 4).to(x.device()));
    if (round == 1 && parts > 0)
      x.partition(0, 12 / parts);
  }
  return x.to_vector<float>();
}

}  // namespace

TEST_CASE("Work on one part of a partitioned array does not wait for work on another", "[partition]") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  Gate gate;
  const OpensAtEnd opens(gate);
  const NDArray x = zeros({4, 5000});
  x.partition(0, 4);
  const NDArray late = behind(gate, {1, 5000}, 7);
  x.slice(0, 1, 2).assign(late);
  REQUIRE(gate.reached());
  x.slice(0, 2, 3).assign(3);
  CHECK(sum(x.slice(0, 2, 4)).item<float>() == 15000);  // the gate is closed
  x[3].wait_to_write();
  const NDArray all = sum(x);
  CHECK_FALSE(gate.is_open());
  gate.open();
  CHECK(all.item<float>() == 50000);
}

TEST_CASE("What was pushed before a partition comes before what is pushed after it", "[partition]") {
  Engine engine({.workers = 3});
  const EngineScope scope(engine);
  Gate gate;
  const OpensAtEnd opens(gate);
  const NDArray x = zeros({2, 4000});
  x.assign(behind(gate, {2, 4000}, 5));  // a write
  x.partition(0, 2);
  const NDArray read = x.slice(0, 1, 2) * 2;
  Gate second;
  const OpensAtEnd both(second);
  const NDArray gated = behind(second, {2, 4000}, 1);
  const NDArray sums = gated + x;  // a read, which waits
  x.partition(0, 1);
  x.assign(9);
  gate.open();
  CHECK(sum(read).item<float>() == 40000);
  second.open();
  CHECK(sum(sums).item<float>() == 48000);
  CHECK(sum(x).item<float>() == 72000);
}

TEST_CASE("Partitioned arrays give what others give", "[partition]") {
  const NDArray x = random_array({12, 3}, 1);
  const std::vector<float> want = worked_on(x.copy(), 0);
  for (const std::int64_t parts : {1, 2, 3, 4, 6, 12}) {
    CAPTURE(parts);
    CHECK(worked_on(x.copy(), parts) == want);
  }
}

TEST_CASE("Partitioned arrays on a GPU give what others give", "[partition][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = random_array({12, 3}, 1), large = random_array({12, 70000}, 2);
  for (const NDArray& each : {x, large}) {
    const std::vector<float> want = worked_on(each.to(gpu()).copy(), 0);
    for (const std::int64_t parts : {2, 4, 12})
      CHECK(worked_on(each.to(gpu()).copy(), parts) == want);
  }
}

TEST_CASE("A part that failed fails what reads it, not the other parts", "[partition]") {
  const NDArray x = ones({2, 3});
  x.partition(0, 2);
  x.slice(0, 0, 1).assign(take(ones({2, 3}), array<int>({2})));
  CHECK(sum(x.slice(0, 1, 2)).item<float>() == 3);
  CHECK_THROWS_AS(x.wait_to_read(), IndexError);
  CHECK_THROWS_AS(sum(x).item<float>(), IndexError);
  x.partition(0, 1);  // of an array that is lost: it stays so until it is written
  CHECK_THROWS_AS(x.wait_to_read(), IndexError);
  x.assign(2);
  CHECK(sum(x).item<float>() == 12);
}

TEST_CASE("Memory of partitioned arrays goes back once their work has ended", "[partition]") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  const std::uint64_t before = memory_stats(cpu()).allocated;
  Gate gate;
  const OpensAtEnd opens(gate);
  {
    const NDArray x = zeros({4, 100000});
    x.partition(0, 4);
    x.slice(0, 2, 3).assign(behind(gate, {1, 100000}, 1));
    x.partition(0, 2);
  }
  CHECK(memory_stats(cpu()).allocated > before);
  gate.open();
  engine.wait_all();
  CHECK(eventually([&] { return memory_stats(cpu()).allocated == before; }));
}

TEST_CASE("A partition that is none is a typed error", "[partition]") {
  const NDArray x = zeros({4, 6});
  CHECK_THROWS_AS(x.partition(2, 2), IndexError);
  CHECK_THROWS_AS(x.partition(0, 3), ValueError);
  CHECK_THROWS_AS(x.partition(0, 0), ValueError);
  CHECK_THROWS_AS(x.partition(0, -1), ValueError);
  CHECK_THROWS_AS(x.partition(1, 2), ValueError);
  CHECK_THROWS_AS(x.transpose().partition(0, 2), ValueError);
  CHECK_THROWS_AS(x.slice(0, 0, 2).partition(0, 2), ValueError);
  CHECK_THROWS_AS(zeros({1}).broadcast_to({4}).partition(0, 2), ValueError);
  CHECK_THROWS_AS(zeros({0, 2}).partition(0, 1), ValueError);
  CHECK_THROWS_AS(NDArray().partition(0, 1), ValueError);
  CHECK_THROWS_WITH(x.partition(0, 3), contains("(4, 6)") && contains("3 equal parts"));
  zeros({1, 4}).partition(1, 2);
  x.partition(-2, 4);
  CHECK(sum(x + 1).item<float>() == 24);
}
