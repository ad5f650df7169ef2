// Tasks of a program's own on arrays, beside operators.
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/gate.h"

namespace sluice::test {
namespace {

void add_up(const ArrayCall& call) {
  const TensorView& x = call.reads[0];
  float sum = 0;
  for (std::int64_t row = 0; row < x.shape[0]; ++row) {
    for (std::int64_t column = 0; column < x.shape[1]; ++column)
      sum += x.as<float>()[row * x.strides[0] + column * x.strides[1]];
  }
  *call.writes[0].as<float>() = sum;
}

}  // namespace

TEST_CASE("a task on arrays comes between the operators before and behind it", "[operator][push_task]") {
  Gate gate;
  NDArray x = ones({100, 50}), y = zeros({});
  push_task({.name = "held"}, {.writes = {x}}, [&](const ArrayCall&) { gate.wait(); });
  x += 1;  // waits for it, as all below
  TaskHandle summed = push_task({.name = "sum"}, {.reads = {x.T()}, .writes = {y}}, add_up);
  x.assign(0);  // behind its reading
  const NDArray twice = y * 2;
  CHECK_FALSE(summed.done());
  gate.open();
  CHECK(twice.item<float>() == 20000);
  CHECK(sum(x).item<float>() == 0);
  summed.wait();
}

TEST_CASE("a task on arrays keeps their memory and goes with Vars of the program's own", "[operator][push_task]") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  const Var order = engine.new_var();
  Gate gate;
  float seen = 0;
  engine.push({.name = "before", .access = {write(order)}}, [&] { gate.wait(); });
  push_task({.name = "look", .access = {write(order)}}, {.reads = {full({300, 300}, 7)}}, [&](const ArrayCall& call) {
    seen = call.reads[0].as<float>()[89'999];
    CHECK(&call.queue.engine() == &engine);
  });
  gate.open();
  engine.wait(order);
  CHECK(seen == 7);
}

TEST_CASE("errors go through tasks on arrays both ways", "[operator][push_task]") {
  const NDArray bad = take(zeros({2, 3}), array({5})), y = zeros({});
  bool ran = false;
  push_task({.name = "skipped"}, {.reads = {bad}, .writes = {y}}, [&](const ArrayCall&) { ran = true; });
  CHECK_THROWS_AS(y.item<float>(), IndexError);
  CHECK_FALSE(ran);
  const NDArray z = zeros({3});
  const auto sensor = [](const ArrayCall&) { throw std::runtime_error("no sensor"); };
  push_task({.name = "reads a sensor"}, {.writes = {z}}, sensor);
  const std::string line = "test_push_task.cpp:" + std::to_string(__LINE__ - 1);
  CHECK_THROWS_WITH((z + 1).to_vector<float>(), contains("reads a sensor") && contains("no sensor") && contains(line));
}

TEST_CASE("a task on arrays is refused with its name and line", "[operator][push_task]") {
  NDArray x = zeros({3}), undefined;
  const auto nothing = [](const ArrayCall&) {};
  CHECK_THROWS_WITH(
      push_task({.name = "f"}, {.reads = {x, undefined}}, nothing),
      contains("push_task \"f\": one of its arrays is undefined\n  at ") && contains("test_push_task.cpp"));
  CHECK_THROWS_AS(push_task({.name = "f"}, {}, nothing), ValueError);
  CHECK_THROWS_AS(push_task({.name = "f"}, {.reads = {x}}, nullptr), ValueError);
  CHECK_THROWS_AS(push_task({.name = "f"}, {.writes = {x.broadcast_to({2, 3})}}, nothing), ValueError);
  Engine other({.workers = 1});
  {
    const EngineScope scope(other);
    undefined = zeros({2});
  }
  CHECK_THROWS_WITH(push_task({.name = "f"}, {.reads = {x, undefined}}, nothing), contains("different engines"));
  x.attach_grad();
  push_task({.name = "f"}, {.writes = {x}}, nothing);
  const autograd::RecordScope record;
  CHECK_THROWS_AS(push_task({.name = "f"}, {.writes = {x}}, nothing), AutogradError);
}

TEST_CASE("backward finds out that a task wrote what it needs", "[operator][push_task]") {
  NDArray x = ones({3}), y;
  x.attach_grad();
  {
    const autograd::RecordScope record;
    y = sum(x * x);
  }
  const auto five = [](const ArrayCall& call) { call.writes[0].as<float>()[0] = 5; };
  // One that is refused did not.
  const Var none;
  CHECK_THROWS_AS(push_task({.name = "f", .access = {read(none)}}, {.writes = {x}}, five), ValueError);
  y.backward({}, {.retain_graph = true});
  push_task({.name = "f"}, {.writes = {x}}, five);
  CHECK_THROWS_AS(y.backward(), AutogradError);
}

TEST_CASE("whom a task's body tells of it finds its writes counted", "[operator][push_task]") {
  Engine engine({.cpu_policy = CpuMode::serial});  // whose bodies run before push() returns
  const EngineScope here(engine);
  const NDArray x = ones({3}), y = ones({3});
  const auto versions = [&] {
    return std::vector<std::uint64_t>{x.object()->buffer->version(), y.object()->buffer->version()};
  };
  const std::vector<std::uint64_t> before = versions();
  std::vector<std::uint64_t> seen;
  const TaskArrays arrays{.reads = {y}, .writes = {x, x[1]}};
  push_task({.name = "f"}, arrays, [&](const ArrayCall&) { seen = versions(); });
  CHECK(seen == std::vector<std::uint64_t>{before[0] + 2, before[1]});
  const Var none;
  CHECK_THROWS_AS(push_task({.name = "f", .access = {read(none)}}, arrays, [](const ArrayCall&) {}), ValueError);
  CHECK(versions() == seen);
}

TEST_CASE("a task on arrays of a GPU is given a stream of that GPU", "[operator][push_task][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = ones({8}, {.device = gpu()}), y = zeros({8}, {.device = gpu()}), here = ones({8});
  bool right = false;
  push_task({.name = "f"}, {.reads = {x}, .writes = {y}}, [&](const ArrayCall& call) {
    right = call.queue.device() == gpu() && call.queue.stream() != nullptr;
  });
  CHECK(y.to_vector<float>() == std::vector<float>(8));  // behind it
  CHECK(right);
  CHECK_THROWS_WITH(
      push_task({.name = "f"}, {.reads = {x}, .writes = {here}}, [](const ArrayCall&) {}),
      contains("push_task \"f\": its arrays are on gpu(0) and cpu(0)"));
}

TEST_CASE("what a task wrote while a program was recorded has no gradient", "[operator][push_task]") {
  NDArray x = ones({3}), z;
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = x * 2;
  push_task(
      {.name = "f"}, {.writes = {y}}, [](const ArrayCall& call) { std::fill_n(call.writes[0].as<float>(), 3, 7.0F); });
  z = sum(y);
  CHECK(z.item<float>() == 21);
  CHECK_THROWS_AS(z.backward(), AutogradError);
}

TEST_CASE("a task does not write to what a mask named", "[operator][push_task]") {
  const NDArray x = ones({3}), mask = array({1, 0, 1}) != 0;
  CHECK_THROWS_WITH(
      push_task({.name = "f"}, {.writes = {x[mask]}}, [](const ArrayCall&) {}),
      contains("push_task") && contains("lost"));
}

}  // namespace sluice::test
