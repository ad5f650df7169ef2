// The eager call's own ways: recycled arrays, nodes and records, runs that need no plan, attributes in place.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/storage/api.h>

#include "tests/support/catch.h"
#include "tests/support/child.h"
#include "tests/support/compare.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Where threads leave results for other threads.
class Shelf {
 public:
  void put(NDArray array) {
    const std::lock_guard hold(mutex_);
    arrays_.push_back(std::move(array));
  }
  /// Undefined once `makers` have ended and nothing is left.
  NDArray take(const std::atomic<int>& makers) {
    for (;;) {
      const bool last = makers.load() == 0;
      {
        const std::lock_guard hold(mutex_);
        if (!arrays_.empty()) {
          NDArray array = std::move(arrays_.back());
          arrays_.pop_back();
          return array;
        }
      }
      if (last)
        return {};
      std::this_thread::yield();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<NDArray> arrays_;
};

Attributes numbers_beside(Scalar number, bool first) {
  return Attributes::of(detail::NumberAttribute{number, first, true});
}

// Makers put recorded results on the shelf, droppers look at every eighth and drop all; then all threads end. Returns
// how many results were wrong.
int make_here_and_drop_there(Engine& engine, int each) {
  Shelf shelf;
  std::atomic<int> makers{2}, wrong{0}, seen{0};
  std::vector<std::thread> threads;
  for (int m = 0; m < 2; ++m) {
    threads.emplace_back([&, m] {
      const EngineScope scope(engine);
      NDArray x = full({16}, m + 1);
      x.attach_grad();
      const NDArray row = full({16}, 2);
      for (int i = 0; i < each; ++i) {
        const autograd::RecordScope record;
        shelf.put(x * row + i);
      }
      --makers;
    });
    threads.emplace_back([&] {
      const EngineScope scope(engine);
      for (NDArray array = shelf.take(makers); array.defined(); array = shelf.take(makers)) {
        const std::vector<float> values = seen++ % 8 == 0 ? array.to_vector<float>() : std::vector<float>(16, 2);
        for (const float value : values)
          wrong += value != values[0] || value < 2 || value > static_cast<float>(each + 4);
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  return wrong + (seen == 2 * each ? 0 : 1);
}

}  // namespace

TEST_CASE("arrays made on threads that end are dropped on others, and all memory comes back", "[eager]") {
  for (const CpuMode mode : {CpuMode::pool, CpuMode::serial}) {
    Engine engine({.workers = 2, .cpu_policy = mode});
    const EngineScope scope(engine);
    for (int round = 0; round < 3; ++round) {
      CHECK(make_here_and_drop_there(engine, 300) == 0);
      engine.wait_all();
      CHECK(memory_stats(cpu()).active == 0);
    }
  }
}

#if !defined(__SANITIZE_THREAD__)  // which does not follow a fork of a process with threads
TEST_CASE("a forked child goes on with its parent's arrays and makes its own", "[eager]") {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  NDArray x = full({16}, 3);
  x.attach_grad();
  std::vector<NDArray> held;
  for (int i = 0; i < 200; ++i)
    held.push_back(x + i);
  engine.wait_all();
  const int code = in_child([&] {
    held.resize(100);
    for (int i = 0; i < 300; ++i) {
      const autograd::RecordScope record;
      held.push_back(x * i);
    }
    if (held.back().to_vector<float>() != std::vector<float>(16, 3 * 299) || held[99].to_vector<float>()[0] != 102)
      return 1;
    held.back().backward();
    if (x.grad().to_vector<float>() != std::vector<float>(16, 299))
      return 2;
    held.clear();
    return (x + x).to_vector<float>() == std::vector<float>(16, 6) ? 0 : 3;
  });
  CHECK(code == 0);
  CHECK(held.back().to_vector<float>() == std::vector<float>(16, 202));
}
#endif

TEST_CASE(
    "rows of any length beside numbers, strided arrays and short types are computed to the last element", "[eager]") {
  for (const std::int64_t n : {0, 1, 2, 16, 255, 256, 257, 700}) {
    for (const DType dtype : {float32, float16, float64, int32, uint8}) {
      CAPTURE(n, name_of(dtype));
      const auto every = [n](auto value) {
        std::vector<float> values;
        for (std::int64_t i = 0; i < n; ++i)
          values.push_back(static_cast<float>(value(i % 12)));
        return values;
      };
      const NDArray x = array<float>(every([](auto i) { return i; }), {n}).astype(dtype);
      const NDArray wide = array<float>(every([](auto i) { return i; }), {n, 1}).broadcast_to({n, 3}).copy();
      const NDArray strided = wide.slice(1, 1, 2).reshape({n}).astype(dtype);
      CHECK((x + x).to_vector<float>() == every([](auto i) { return 2 * i; }));
      CHECK((x + 3).to_vector<float>() == every([](auto i) { return i + 3; }));
      CHECK((40 - x).to_vector<float>() == every([](auto i) { return 40 - i; }));
      CHECK((x * strided).to_vector<float>() == every([](auto i) { return i * i; }));
      CHECK(square(wide.T()[2].astype(dtype)).to_vector<float>() == every([](auto i) { return i * i; }));
      NDArray y = x.copy();
      y += 1;
      CHECK(y.to_vector<float>() == every([](auto i) { return i + 1; }));
    }
  }
}

TEST_CASE("short elementwise calls run where they are made, if nothing comes before them", "[eager]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const NDArray a = full({16}, 3), b = full({4, 4}, 2), row = full({4}, 5), late = zeros({16}), many = zeros({4096});
  engine.wait_all();
  Gate gate;
  OpensAtEnd opens(gate);
  engine.push({.name = "holds the worker", .access = {write(late.object()->buffer->var())}}, [&gate] { gate.wait(); });
  const auto first_of = [](const NDArray& array) {
    return *static_cast<const float*>(static_cast<void*>(array.object()->data()));
  };
  const auto ran = [&](const NDArray& result) { return result.object()->buffer->var().version() == 1; };
  const NDArray sum = a + a, with_number = a * 2, with_row = b + row, view = exp(a[0]) - exp(a[0]);
  for (const NDArray& result : {sum, with_number, with_row, view})
    CHECK(ran(result));
  CHECK(first_of(sum) == 6);
  CHECK(first_of(with_number) == 6);
  CHECK(first_of(with_row) == 7);
  CHECK(first_of(view) == 0);
  const NDArray waits = a + late, after = waits * 2, large = many + 1;
  for (const NDArray& result : {waits, after, large})
    CHECK_FALSE(ran(result));
  gate.open();
  CHECK(after.to_vector<float>() == std::vector<float>(16, 6));
  CHECK(large.to_vector<float>() == std::vector<float>(4096, 1));
}

// While it lives the only worker is held by a task that writes `late`, so that what is a task does not run.
struct HeldWorker {
  HeldWorker() : engine({.workers = 1}), scope(engine), late(zeros({16})), opens(gate) {
    engine.push({.name = "holds", .access = {write(late.object()->buffer->var())}}, [this] { gate.wait(); });
  }
  static bool ran(const NDArray& result) { return result.object()->buffer->var().version() == 1; }
  static float first_of(const NDArray& array) {
    return *static_cast<const float*>(static_cast<void*>(array.object()->data()));
  }

  Gate gate;
  Engine engine;
  EngineScope scope;
  NDArray late;
  OpensAtEnd opens;
};

TEST_CASE("short reductions, softmax, copies, casts and fills run where they are made too", "[eager]") {
  const HeldWorker held;
  const NDArray x = arange(0, 12).reshape({3, 4}), strided = x.T();
  const std::vector<std::pair<const char*, NDArray>> results = {
      {"arange", x},
      {"sum", sum(x)},
      {"sum of columns", sum(x, {0})},
      {"mean", mean(x, {1})},
      {"max of what is strided", max(strided, {1})},
      {"variance", variance(x)},
      {"logsumexp", logsumexp(x, {1})},
      {"any", any(x)},
      {"argmax", argmax(x, 1)},
      {"argmin of columns", argmin(x, 0)},
      {"softmax", softmax(x)},
      {"softmax of columns", softmax(x, 0)},
      {"log_softmax", log_softmax(x)},
      {"softmax of what is strided", softmax(strided)},
      {"copy", x.copy()},
      {"copy of what is strided", strided.copy()},
      {"cast", x.astype(float16)},
      {"cast of what is strided", strided.astype(int64)},
      {"full", full({16}, 2)},
      {"zeros_like", zeros_like(x)}};
  for (const auto& [name, result] : results) {
    CAPTURE(name);
    CHECK(HeldWorker::ran(result));
  }
  CHECK(HeldWorker::first_of(sum(x)) == 66);
  CHECK(HeldWorker::first_of(max(strided, {1})) == 8);
  CHECK(HeldWorker::first_of(full({16}, 2)) == 2);
  CHECK(HeldWorker::first_of(strided.copy().slice(0, 1, 2)) == 1);
}

TEST_CASE("long ones, and those of what is not there yet, are tasks", "[eager]") {
  HeldWorker held;
  const NDArray many = zeros({2, 1024});
  const std::vector<std::pair<const char*, NDArray>> results = {
      {"sum of what is not there", sum(held.late)},
      {"copy of it", held.late.copy()},
      {"cast of it", held.late.astype(int32)},
      {"sum of many", sum(many)},
      {"few sums of many", sum(many, {1})},
      {"softmax of many", softmax(many)},
      {"copy of many", many.copy()},
      {"many filled", full({1025}, 1)}};
  for (const auto& [name, result] : results) {
    CAPTURE(name);
    CHECK_FALSE(HeldWorker::ran(result));
  }
  held.gate.open();
  CHECK(results[0].second.item<double>() == 0);
  CHECK(results.back().second.to_vector<float>() == std::vector<float>(1025, 1));
}

TEST_CASE("what a task of the user's writes is filled and copied into after it", "[eager]") {
  HeldWorker held;
  const NDArray known = empty({16});
  held.engine.push({.name = "writes", .access = {write(known.object()->buffer->var())}}, [known] {
    std::fill_n(static_cast<float*>(static_cast<void*>(known.object()->data())), 16, 5.0F);
  });
  fill(known, 1);
  const NDArray plus = known + 0;
  copy_into(full({16}, 7), known);
  held.gate.open();
  CHECK(plus.to_vector<float>() == std::vector<float>(16, 1));
  CHECK(known.to_vector<float>() == std::vector<float>(16, 7));
}

TEST_CASE("a short call of a value that is lost fails as its task would", "[eager]") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const NDArray lost = zeros({4});
  engine.push(
      {.name = "fails", .access = {write(lost.object()->buffer->var())}}, [] { throw ValueError("on purpose"); });
  const NDArray total = sum(lost), copied = lost.copy(), cast = lost.astype(int32);
  for (const NDArray& result : {total, copied, cast})
    CHECK_THROWS_AS(result.wait_to_read(), ValueError);
}

TEST_CASE("what operators say of operands that are alike is what they infer", "[eager]") {
  constexpr DType k_types[] = {float32, float64, float16, bfloat16, int8, uint8, int32, int64, bool_};
  int said = 0;
  for (const Operator* op : operators()) {
    if (op->alike == nullptr)
      continue;
    int of_this = 0;
    for (const Attributes& attributes :
         {Attributes(), numbers_beside(2, false), numbers_beside(2, true), numbers_beside(300.5, false)}) {
      const bool fits = attributes.empty() ? op->optional_attributes || op->attributes == &attribute_type<NoAttributes>
                                           : *op->attributes == *attributes.type();
      if (!fits)
        continue;
      for (std::size_t inputs = 1; inputs <= 4; ++inputs) {
        if (op->inputs >= 0 && inputs != static_cast<std::size_t>(op->inputs))
          continue;
        for (const DType dtype : k_types) {
          DType result = dtype;
          if (!op->alike(inputs, attributes, result))
            continue;
          CAPTURE(op->name, inputs, name_of(dtype), to_string(attributes));
          const std::vector<NDArray> given(inputs, zeros({2, 3}, {.dtype = dtype}));
          NormalCall normal;
          CHECK_FALSE((op->normalise != nullptr && op->normalise({*op, given, attributes, {}}, normal)));
          const std::vector<ArraySpec> specs(inputs, ArraySpec{{2, 3}, dtype, cpu()});
          const Specs inferred = infer(*op, specs, attributes);
          REQUIRE(inferred.size() == 1);
          CHECK(inferred[0].shape == Shape{2, 3});
          CHECK(inferred[0].dtype == result);
          ++of_this;
        }
      }
    }
    CAPTURE(op->name);
    CHECK((of_this > 0 || (op->attributes != &attribute_type<NoAttributes> && !op->optional_attributes)));
    said += of_this;
  }
  CHECK(said > 500);
}

TEST_CASE("a recorded short call keeps what its gradient reads, and is stale once that is written", "[eager]") {
  NDArray x = full({16}, 3);
  x.attach_grad();
  NDArray square_of, y;
  {
    const autograd::RecordScope record;
    y = exp(x * 0);
    square_of = y * y;
  }
  square_of.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>(16, 0));
  {
    const autograd::RecordScope record;
    y = exp(x * 0);
    square_of = y * y;
  }
  y.detach() += 1;
  CHECK_THROWS_AS(square_of.backward(), AutogradError);
}
