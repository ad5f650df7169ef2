// invoke(): checks, destinations, the tape, compositions, many threads, who is told.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>
#include <sluice/operator/observer.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

Specs same_spec(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {inputs[0]};
}

// y[i] = x[n - 1 - i]: not elementwise, and contiguous operands only.
void reverse_cpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  if (!x.contiguous || !y.contiguous)
    throw ValueError("reverse: the kernel was given strided operands");
  for (std::int64_t i = 0; i < x.size; ++i)
    y.as<float>()[i] = x.as<float>()[x.size - 1 - i];
}
Arrays reverse_gradient(const GradientCall& call);
const Operator k_reverse{
    .name = "reverse", .infer = same_spec, .kernels = {on_cpu(reverse_cpu)}, .gradient = reverse_gradient};
Arrays reverse_gradient(const GradientCall& call) {
  return {invoke_one(k_reverse, {call.output_grads[0]}, {}, {})};
}

// counts[0] += number of elements of x; y = x.
void counting_cpu(const KernelCall& call) {
  for (std::int64_t i = 0; i < call.inputs[0].size; ++i)
    call.outputs[0].as<float>()[i] = call.inputs[0].as<float>()[i];
  for (std::int64_t i = 0; i < call.inputs[1].size; ++i)
    call.inputs[1].as<float>()[i] += static_cast<float>(call.inputs[0].size);
}
const Operator k_counting{
    .name = "counting", .inputs = 2, .infer = same_spec, .kernels = {on_cpu(counting_cpu)}, .mutated_inputs = Mask{2}};

Arrays cube(std::span<const NDArray> inputs, const Attributes&, SourceLocation) {
  return {inputs[0] * inputs[0] * inputs[0]};
}
const Operator k_cube{.name = "cube", .composition = cube};

Arrays opposite_gradient(const GradientCall& call) {
  return {-call.output_grads[0]};
}
// A composition with a gradient of its own, deliberately another one.
const Operator k_reversal{.name = "reversal", .composition = cube, .gradient = opposite_gradient};

// y = the first 32 bits of each element's counter.
std::uint64_t counters(std::span<const ArraySpec> outputs, const Attributes&) {
  return static_cast<std::uint64_t>(outputs[0].shape.size());
}
void offsets_cpu(const KernelCall& call) {
  for (std::int64_t i = 0; i < call.outputs[0].size; ++i)
    call.outputs[0].as<float>()[i] = static_cast<float>(call.random.offset) + static_cast<float>(i);
}
const Operator k_offsets{.name = "offsets", .infer = same_spec, .kernels = {on_cpu(offsets_cpu)}, .random = counters};

void failing_cpu(const KernelCall&) {
  throw ValueError("failing: on purpose");
}
const Operator k_failing{.name = "failing", .infer = same_spec, .kernels = {on_cpu(failing_cpu)}};
// Gradients that fail in their kernel and while they are worked out; sites as operators of the library give them.
Arrays failing_gradient(const GradientCall& call) {
  return {invoke_one(k_failing, {call.output_grads[0]}, {}, SourceLocation::current())};
}
Arrays refused_gradient(const GradientCall& call) {
  return {call.output_grads[0] + zeros({5, 7})};
}
const Operator k_fails_back{.name = "fails_back", .composition = cube, .gradient = failing_gradient};
const Operator k_refuses_back{.name = "refuses_back", .composition = cube, .gradient = refused_gradient};
const Operator k_gpu_only{.name = "gpu_only", .infer = same_spec};

void write_to(const Operator& op, const NDArray& x, const NDArray& into) {
  invoke(op, {&x, 1}, {}, {}, {&into, 1});
}

struct Told final : CallObserver {
  std::vector<std::string> names;

  void called(const Operator& op, std::span<const NDArray>, std::span<const NDArray> results) override {
    names.push_back(op.name);
    (void)(results[0] + results[0]);  // what is called in here is not told
  }
};

}  // namespace

TEST_CASE("an operator without a kernel for the device says so", "[operator][invoke][errors]") {
  const NDArray x = ones({2});
  CHECK_THROWS_AS(invoke_one(k_gpu_only, {x}, {}, {}), UnsupportedError);
  CHECK_THROWS_WITH(
      invoke_one(k_gpu_only, {x}, {}, {}), contains("gpu_only") && contains("cpu") && contains("float32"));
}

TEST_CASE("inputs that cannot be are refused by name", "[operator][invoke][errors]") {
  const NDArray x = ones({2});
  CHECK_THROWS_AS(invoke_one(k_reverse, {NDArray()}, {}, {}), ValueError);
  CHECK_THROWS_WITH(invoke_one(k_reverse, {NDArray()}, {}, {}), contains("reverse") && contains("input 0"));
  CHECK_THROWS_WITH(invoke_one(k_reverse, {x, x}, {}, {}), contains("reverse") && contains("takes 1"));
  Engine other;
  NDArray elsewhere;
  {
    const EngineScope scope(other);
    elsewhere = ones({2});
  }
  CHECK_THROWS_AS(x + elsewhere, ValueError);
  CHECK_THROWS_WITH(x + elsewhere, contains("add") && contains("engine"));
  // Work on another engine's arrays stays there.
  const NDArray sum = elsewhere + elsewhere;
  CHECK(&sum.engine() == &other);
  CHECK(sum.to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("a call that says no device, by inputs or results, is refused", "[operator][invoke][errors]") {
  static const Operator op = {
      .name = "nothing_at_all",
      .inputs = 0,
      .outputs = -1,
      .infer = [](const Operator&, std::span<const ArraySpec>, const Attributes&) { return Specs(); },
      .kernels = {on_cpu([](const KernelCall&) {})},
  };
  CHECK_THROWS_AS(invoke(op, {}, {}, {}), ValueError);
  CHECK_THROWS_WITH(invoke(op, {}, {}, {}), contains("nothing_at_all: neither inputs nor results"));
}

TEST_CASE("a kernel that wants contiguous operands gets them", "[operator][invoke]") {
  const NDArray x = arange(0, 6).reshape({2, 3}).T();
  CHECK(invoke_one(k_reverse, {x}, {}, {}).to_vector<float>() == std::vector<float>{5, 2, 4, 1, 3, 0});
  const NDArray into = zeros({2, 3});
  write_to(k_reverse, x, into.T());
  CHECK(into.T().to_vector<float>() == std::vector<float>{5, 2, 4, 1, 3, 0});
}

TEST_CASE("a destination that overlaps an input of a kernel that is not elementwise is safe", "[operator][invoke]") {
  const NDArray x = arange(0, 6);
  write_to(k_reverse, x, x);
  CHECK(x.to_vector<float>() == std::vector<float>{5, 4, 3, 2, 1, 0});
  write_to(k_reverse, x.slice(0, 0, 4), x.slice(0, 1, 5));
  CHECK(x.to_vector<float>() == std::vector<float>{5, 2, 3, 4, 5, 0});
}

TEST_CASE("destinations are cast to, and refused where they do not fit", "[operator][invoke]") {
  const NDArray x = arange(0, 3);
  const NDArray wide = zeros({3}, {.dtype = float64}), whole = zeros({3}, {.dtype = int32});
  write_to(k_reverse, x, wide);
  CHECK(wide.to_vector<double>() == std::vector<double>{2, 1, 0});
  CHECK_THROWS_AS(write_to(k_reverse, x, whole), DTypeError);
  CHECK_THROWS_AS(write_to(k_reverse, x, zeros({4})), ShapeError);
  CHECK_THROWS_AS(write_to(k_reverse, x, NDArray()), ValueError);
  CHECK_THROWS_AS(write_to(k_reverse, x, zeros({1}).broadcast_to({3})), ValueError);
}

TEST_CASE("inputs that a kernel writes are written, through copies where they are strided", "[operator][invoke]") {
  const NDArray x = ones({5}), counts = zeros({2, 2});
  invoke_one(k_counting, {x, counts}, {}, {});
  CHECK(counts.to_vector<float>() == std::vector<float>(4, 5));
  invoke_one(k_counting, {x, counts.slice(1, 0, 1)}, {}, {});
  CHECK(counts.to_vector<float>() == std::vector<float>{10, 5, 10, 5});
  CHECK_THROWS_AS(invoke_one(k_counting, {x, zeros({1}).broadcast_to({3})}, {}, {}), ValueError);
}

TEST_CASE("random counters are taken in the order of pushes", "[operator][invoke]") {
  Engine engine;
  const EngineScope scope(engine);
  engine.seed(3);
  const NDArray x = zeros({4});
  const auto first = invoke_one(k_offsets, {x}, {}, {}).to_vector<float>();
  const auto second = invoke_one(k_offsets, {x}, {}, {}).to_vector<float>();
  CHECK(second[0] == first[0] + 4);
}

TEST_CASE("an error in a kernel surfaces at the wait with the operator's name", "[operator][invoke][errors]") {
  const NDArray y = invoke_one(k_failing, {ones({2})}, {}, SourceLocation::current());
  const NDArray z = y + 1;
  CHECK_THROWS_AS(z.wait_to_read(), ValueError);
  try {
    z.to_vector<float>();
    FAIL("nothing was thrown");
  } catch (const ValueError& error) {
    REQUIRE(error.record() != nullptr);
    CHECK(error.record()->task == "failing");
    CHECK_THAT(error.record()->site.file, Catch::Matchers::EndsWith("test_invoke.cpp"));
  }
}

TEST_CASE("the push site of an overloaded operator is the line where it stands", "[operator][invoke][errors]") {
  NDArray x = ones({2});
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = x * 2;
  const int line = __LINE__ - 1;
  const autograd::Entry entry = autograd::entry_of(y);
  REQUIRE(entry.node);
  CHECK(std::string(entry.node->name()) == "multiply");
  CHECK(entry.node->site().line == line);
}

TEST_CASE("what fails in a gradient names the line of the forward operator", "[operator][invoke][errors]") {
  NDArray x = ones({2});
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = invoke_one(k_fails_back, {x}, {}, SourceLocation::current());
  const int line = __LINE__ - 1;
  y.backward();
  try {
    x.grad().to_vector<float>();
    FAIL("nothing was thrown");
  } catch (const ValueError& error) {
    REQUIRE(error.record() != nullptr);
    CHECK(error.record()->task == "failing");
    CHECK(error.record()->site.line == line);
    CHECK_THAT(error.record()->site.file, Catch::Matchers::EndsWith("test_invoke.cpp"));
  }
  const std::string place = "test_invoke.cpp:" + std::to_string(__LINE__ + 1);
  const NDArray z = invoke_one(k_refuses_back, {x}, {}, SourceLocation::current());
  CHECK_THROWS_WITH(z.backward(), contains("in the gradient of \"refuses_back\"") && contains(place));
}

TEST_CASE("arrays in braces are inputs, and all outputs come back", "[operator][invoke]") {
  const Operator& halves = *find_operator("modf");
  const Arrays parts = invoke(halves, {array({1.5F, -2.25F})});
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].to_string() == "[ 0.5  -0.25]");
  CHECK(parts[1].to_string() == "[ 1. -2.]");
  CHECK_THROWS_WITH(
      invoke(halves, {}), contains("modf: takes 1 inputs, was given 0\n  at ") && contains("test_invoke.cpp:"));
}

TEST_CASE("views record the line where they stand, T() too", "[operator][invoke][errors]") {
  NDArray x = ones({2, 3});
  x.attach_grad();
  const autograd::RecordScope record;
  const NDArray views[] = {x.T(), x.transpose(), x.flatten(), x.expand_dims(0)};
  const int line = __LINE__ - 1;
  for (const NDArray& view : views) {
    const autograd::Entry entry = autograd::entry_of(view);
    REQUIRE(entry.node);
    CHECK(entry.node->site().line == line);
    CHECK_THAT(entry.node->site().file, Catch::Matchers::EndsWith("test_invoke.cpp"));
  }
  NDArray again = x.T();
  again.backward();
  CHECK_THROWS_WITH(again.backward(), contains("test_invoke.cpp"));
}

TEST_CASE(
    "compositions record their own operators, or one node if they have a gradient", "[operator][invoke][gradient]") {
  const auto gradient_at_2 = [](const Operator& op) {
    NDArray x = full({}, 2.0);
    x.attach_grad();
    {
      const autograd::RecordScope record;
      invoke_one(op, {x}, {}, {}).backward();
    }
    return x.grad().item<float>();
  };
  CHECK(gradient_at_2(k_cube) == 12);
  CHECK(gradient_at_2(k_reversal) == -1);
  const NDArray into = zeros({2}), x = array<float>({2, 3});
  write_to(k_cube, x, into);
  CHECK(into.to_vector<float>() == std::vector<float>{8, 27});
}

TEST_CASE("results written to a destination are on the tape", "[operator][invoke][gradient]") {
  for (const Operator* op : {&k_cube, &k_reverse}) {
    CAPTURE(op->name);
    NDArray x = array<float>({1, 2});
    x.attach_grad();
    const NDArray into = zeros({2}), wide = zeros({2}, {.dtype = float64});
    {
      const autograd::RecordScope record;
      write_to(*op, x, into);
      (into * array<float>({1, 10})).backward();
    }
    CHECK(x.grad().to_vector<float>() == (op == &k_cube ? std::vector<float>{3, 120} : std::vector<float>{10, 1}));
  }
}

TEST_CASE("any number of threads may invoke operators", "[operator][invoke][threads]") {
  const NDArray shared = arange(0, 1000);
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      NDArray x = full({1000}, t);
      x.attach_grad();
      NDArray y;
      for (int i = 0; i < 50; ++i) {
        {
          const autograd::RecordScope record;
          y = (x * shared + 1) * x;
        }
        y.backward();
      }
      const auto grad = x.grad().to_vector<float>();
      bool good = true;
      for (std::size_t i = 0; i < grad.size(); ++i)
        good = good && grad[i] == static_cast<float>(2 * t) * static_cast<float>(i) + 1;
      right += good ? 1 : 0;
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(right == 8);
}

TEST_CASE("every operator is listed once, by its name", "[operator][invoke]") {
  std::vector<std::string> names;
  for (const Operator* op : operators()) {
    REQUIRE(op != nullptr);
    names.emplace_back(op->name);
    const bool computes = !op->kernels.empty() || op->issue != nullptr || op->composition != nullptr;
    CHECK((computes || op->view != nullptr));
  }
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
  for (const std::string& name : names)
    CHECK_FALSE(name.ends_with("_gradient"));  // such are called _backward
  for (const char* name : {"add", "tanh", "tanh_backward", "where", "clip", "reshape", "astype", "slice"})
    CHECK(std::binary_search(names.begin(), names.end(), name));
}

TEST_CASE("A trace says what an operator moves: each input once, where it is broadcast too, what it changes twice") {
  Engine engine({.workers = 1});
  const EngineScope scope(engine);
  const NDArray x = ones({4, 3}), row = ones({3}), total = ones({1});
  engine.wait_all();
  engine.start_trace();
  const NDArray sum = x + row.broadcast_to({4, 3});
  invoke_one(k_counting, {x, total}, {}, {});
  engine.wait_all();
  const Trace trace = engine.stop_trace();
  REQUIRE(trace.events().size() == 2);
  CHECK(trace.events()[0].bytes == sizeof(float) * (12 + 3 + 12));
  CHECK(trace.events()[1].bytes == sizeof(float) * (12 + 2 * 1 + 12));
}

TEST_CASE("An observer is told of the calls of its body, not of tasks that run on top of it", "[invoke]") {
  for (const CpuMode mode : {CpuMode::serial, CpuMode::chaos}) {
    Engine engine({.cpu_policy = mode});
    const EngineScope scope(engine);
    const NDArray a = ones({3});
    Told outside, inside;
    const CallObserverScope told(&outside);
    engine
        .push(
            {.name = "body"},
            [&] {
              (void)(a + a);
              const CallObserverScope own(&inside);
              (void)(a * a);
              engine.push({.name = "child"}, [&] { (void)(a - a); }).wait();
              const CallObserverScope nobody(nullptr);
              (void)(a / a);
            })
        .wait();
    (void)(a / a);
    CHECK(outside.names == std::vector<std::string>{"divide"});
    CHECK(inside.names == std::vector<std::string>{"multiply"});
  }
}
