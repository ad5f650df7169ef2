// The tape as operators write it: what is recorded, writing in place, second derivatives, what is freed.
#include <algorithm>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE(
    "nothing is recorded outside a recording, nor for operators without a gradient", "[operator][invoke][gradient]") {
  NDArray x = ones({2});
  x.attach_grad();
  CHECK_FALSE(autograd::on_tape(x * 2));
  const autograd::RecordScope record;
  CHECK(autograd::on_tape(x * 2));
  CHECK_FALSE(autograd::on_tape(x > 0));
  CHECK_FALSE(autograd::on_tape(x.astype(int32)));
  CHECK_FALSE(autograd::on_tape(ones({2}) * 2));
  CHECK_FALSE(autograd::on_tape(x.detach() * 2));
  {
    const autograd::PauseScope pause;
    CHECK_FALSE(autograd::on_tape(x * 2));
  }
}

TEST_CASE(
    "writing in place while recording is refused where gradients would be wrong", "[operator][invoke][gradient]") {
  NDArray x = ones({2});
  x.attach_grad();
  NDArray constant = ones({2});
  {
    const autograd::RecordScope record;
    CHECK_THROWS_AS(x += 1, AutogradError);
    CHECK_THROWS_AS(x.assign(0), AutogradError);
    CHECK_THROWS_WITH(x *= 2, contains("multiply") && contains("variable"));
    NDArray y = x * 2;
    const NDArray seen = y.slice(0, 0, 1);
    CHECK_THROWS_AS(y += 1, AutogradError);
    constant += 1;  // not on the tape
  }
  x += 1;  // not recorded
  CHECK(x.to_vector<float>() == std::vector<float>{2, 2});
}

TEST_CASE("results may be written in place while recording if nobody else sees them", "[operator][invoke][gradient]") {
  NDArray x = array<float>({1, 2});
  x.attach_grad();
  {
    const autograd::RecordScope record;
    NDArray y = x * 3;
    y += 1;
    y *= -2;
    y += x * x;  // -6x - 2 + x^2
    y.backward();
  }
  CHECK(x.grad().to_vector<float>() == std::vector<float>{-4, -2});
  {
    const autograd::RecordScope record;
    NDArray y = x * 3;
    y.assign(5);  // overwritten by a constant: off the tape
    CHECK_FALSE(autograd::on_tape(y));
  }
}

TEST_CASE("a value that was overwritten after forward is not used by backward", "[operator][invoke][gradient]") {
  NDArray x = array<float>({1, 2});
  x.attach_grad();
  const NDArray weight = array<float>({3, 4});
  NDArray y;
  {
    const autograd::RecordScope record;
    y = x * weight;
  }
  weight.assign(0);
  CHECK_THROWS_AS(y.backward(), AutogradError);
  // Only what the wanted gradient reads is kept: x itself may change.
  NDArray v = array<float>({1, 2});
  v.attach_grad();
  const NDArray other = array<float>({3, 4});
  {
    const autograd::RecordScope record;
    y = v * other;
  }
  v.assign(7);
  y.backward();
  CHECK(v.grad().to_vector<float>() == std::vector<float>{3, 4});
}

TEST_CASE("Gradients that are to be added up are, by a backward that is recorded too", "[operator][invoke][gradient]") {
  NDArray x = array<float>({1, 2});
  x.attach_grad(GradReq::add);
  const autograd::RecordScope record;
  const NDArray y = x * x * x;
  y.backward({}, {.create_graph = true});
  y.backward({}, {.create_graph = true});
  const NDArray twice = x.grad();
  CHECK(twice.to_vector<float>() == std::vector<float>{6, 24});
  CHECK(
      autograd::grad(std::vector{twice}, std::vector{x}, {}, {.retain_graph = true})[0].to_vector<float>() ==
      std::vector<float>{12, 24});
  y.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{9, 36});
}

TEST_CASE("second derivatives by create_graph", "[operator][invoke][gradient]") {
  NDArray x = array<double>({0.3, -0.7});
  x.attach_grad();
  const auto second = [&](const std::function<NDArray(const NDArray&)>& f) {
    const autograd::RecordScope record;
    const NDArray y = f(x);
    const NDArray first = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
    return autograd::grad({&first, 1}, {&x, 1})[0];
  };
  const NDArray t = tanh(x);
  CHECK(all_close(second([](const NDArray& v) { return tanh(v); }), -2 * t * (1 - t * t)));
  CHECK(all_close(second([](const NDArray& v) { return v * v * v; }), 6 * x));
  CHECK(all_close(second([](const NDArray& v) { return exp(v) * v; }), exp(x) * (x + 2)));
}

TEST_CASE("the tape and what it kept are freed after backward", "[operator][invoke][gradient]") {
  Engine engine;
  const EngineScope scope(engine);
  NDArray x = ones({1000});
  x.attach_grad();
  engine.wait_all();
  const auto before = memory_stats(cpu()).allocated;
  for (int round = 0; round < 3; ++round) {
    NDArray y;
    {
      const autograd::RecordScope record;
      y = tanh(x) * sigmoid(x) + exp(tanh(x));
    }
    y.backward();
  }
  {
    // A tape that is dropped without backward is freed too: no node holds itself.
    const autograd::RecordScope record;
    NDArray y = tanh(exp(tanh(x)));
    for (int i = 0; i < 100; ++i)
      y = tanh(y);
  }
  {
    const autograd::RecordScope record;
    const NDArray y = tanh(x);
    const NDArray first = autograd::grad({&y, 1}, {&x, 1}, {}, {.create_graph = true})[0];
    CHECK(autograd::on_tape(first));
  }
  engine.wait_all();
  CHECK(memory_stats(cpu()).allocated == before);
}

// The gradient's tape leads to the variable, whose gradient it is.
TEST_CASE("a variable with a recorded gradient is freed, whichever way it got it", "[operator][invoke][gradient]") {
  Engine engine;
  const EngineScope scope(engine);
  engine.wait_all();
  const auto before = memory_stats(cpu()).allocated;
  for (const GradReq req : {GradReq::write, GradReq::add}) {
    for (const int plain : {0, 1, 2}) {  // passes behind the recorded one that are not
      CAPTURE(static_cast<int>(req), plain);
      {
        NDArray x = full({1000}, 0.5);
        x.attach_grad(req);
        NDArray y;
        {
          const autograd::RecordScope record;
          y = x * x * x;
        }
        y.backward({}, {.create_graph = true});
        CHECK(autograd::on_tape(x.grad()));
        for (int i = 0; i < plain; ++i)
          y.backward({}, {.retain_graph = true});
        CHECK(x.grad().to_vector<float>()[7] == Approx(req == GradReq::add ? 0.75 * (1 + plain) : 0.75));
      }
      engine.wait_all();
      CHECK(memory_stats(cpu()).allocated == before);
    }
  }
}

TEST_CASE(
    "a gradient that was recorded can be differentiated while its variable is there, and passes it by after",
    "[operator][invoke][gradient]") {
  NDArray y, first;
  {
    NDArray x = full({3}, 2);
    x.attach_grad();
    const autograd::RecordScope record;
    y = x * x * x;
    y.backward({}, {.create_graph = true});
    first = x.grad();
    first.backward({}, {.retain_graph = true});
    CHECK(x.grad().to_vector<float>() == std::vector<float>{12, 12, 12});
    const NDArray seen = x.grad();
    y.backward({}, {.retain_graph = true});
    CHECK(x.grad().to_vector<float>() == std::vector<float>{12, 12, 12});
  }
  CHECK_NOTHROW(first.backward({}, {.retain_graph = true}));
  CHECK_NOTHROW(y.backward());
}

TEST_CASE("what the tape holds is not in flight, what backward lets go is", "[operator][invoke][gradient]") {
  constexpr std::uint64_t k_bytes = 256 * 256 * 4;
  Engine engine({.workers = 1, .max_bytes_in_flight = 0});
  const EngineScope scope(engine);
  NDArray x = ones({256, 256});
  x.attach_grad();
  engine.wait_all();
  const Gate gate;
  const OpensAtEnd opens(gate);
  engine.push({.name = "gate"}, [gate] { gate.wait(); });
  REQUIRE(gate.reached());
  const auto in_flight = [&] { return engine.counters().bytes_in_flight; };
  NDArray loss;
  {
    const autograd::RecordScope record;
    NDArray y = x * 2;
    CHECK(in_flight() == 0);
    loss = sum(y * y);
    CHECK(in_flight() == k_bytes);  // the product, which nobody needs again
    y = NDArray();
    CHECK(in_flight() == k_bytes);
  }
  loss.backward();
  CHECK(in_flight() >= 2 * k_bytes);
  gate.open();
  engine.wait_all();
  CHECK(in_flight() == 0);
}

namespace {

const sluice::detail::Buffer* watched = nullptr;
std::uint64_t version_in_kernel = 0;

// y = 7, and what a backward on another thread would see meanwhile.
void look_at_version(const KernelCall& call) {
  version_in_kernel = watched->version();
  const TensorView& y = call.outputs.empty() ? call.inputs[0] : call.outputs[0];
  std::fill_n(y.as<float>(), y.size, 7.0F);
}
Specs infer_looking(const Operator& op, std::span<const ArraySpec> inputs, const Attributes&) {
  return op.outputs == 0 ? Specs{} : Specs{inputs[0]};
}

}  // namespace

TEST_CASE("a version is raised before the write is pushed", "[operator][invoke][gradient]") {
  Engine engine({.cpu_policy = CpuMode::serial});  // where a push runs the kernel
  const EngineScope scope(engine);
  const Operator writes_output{.name = "looks_out", .infer = infer_looking, .kernels = {on_cpu(look_at_version)}};
  const Operator writes_input{
      .name = "looks_in",
      .outputs = 0,
      .infer = infer_looking,
      .kernels = {on_cpu(look_at_version)},
      .mutated_inputs = 1};
  const NDArray x = zeros({3}), w = zeros({3});
  watched = w.object()->buffer;
  for (const bool output : {true, false}) {
    const std::uint64_t before = watched->version();
    if (output)
      invoke(writes_output, {&x, 1}, {}, {}, {&w, 1});
    else
      invoke(writes_input, {&w, 1}, {}, {});
    CHECK(w.to_vector<float>() == std::vector<float>(3, 7.0F));
    CHECK(version_in_kernel == before + 1);
    CHECK(watched->version() == before + 1);
    w.assign(0.0);
  }
}
