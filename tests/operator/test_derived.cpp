// What a plan keeps of constants: made once, and again when one of them was written, however that came about.
#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/region.h>
#include <sluice/ndarray/detail/array_object.h>

#include "tests/operator/derived_plans.h"
#include "tests/support/catch.h"
#include "tests/support/gate.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

void check_writes(Device device) {
  const NDArray x = draw({3, 4}, 1, device), w = draw({4, 5}, 2, device), v = draw({4, 5}, 3, device);
  const Body body = [&](const Arrays& in) { return Arrays{matmul(in[0], w * v)}; };
  const Graph graph = traced({x}, body);
  Plan plan(graph);
  CHECK(derived(plan.graph()) == 1);
  CHECK(plan.memory().bytes_derived == 20 * sizeof(float));
  const auto check = [&] { CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(body({x})))); };
  CHECK(renewals(check) == 1);
  CHECK(renewals(check) == 0);

  const Shape whole{4, 5};
  Tracer tracer;
  Plan writer(tracer.trace([&] {
    NDArray at = w;
    at += 1.0;
    return Arrays{};
  }));
  NDArray grad = draw(whole, 4, device), there = w;
  const std::function<void()> writes[] = {
      [&] { w.assign(draw(whole, 5, device)); },
      [&] { w.assign(0.5); },
      [&] { there += draw(whole, 6, device); },
      [&] { v.slice(0, 1, 2).assign(0.25); },
      [&] { w.reshape({20}).slice(0, 3, 9).assign(draw({6}, 7, device)); },
      [&] { v.assign(draw(whole, 8, cpu())); },
      [&] {
        sgd_update({&w, 1}, {&grad, 1}, {}, {.learning_rate = 0.5});
      },
      [&] { writer.run({}); },
  };
  for (const auto& write : writes) {
    write();
    check();
    Engine::current().wait_all();
    check();  // it may have seen a write that was not over
    CHECK(renewals(check) == 0);
  }
}

// Tasks that are replayed are not pushed as calls are; they may be waiting when the plan runs.
void check_regions() {
  const NDArray x = draw({3, 4}, 1, gpu()), w = draw({4, 5}, 2, gpu()), step = draw({4, 5}, 3, gpu());
  const Body body = [&](const Arrays& in) { return Arrays{matmul(in[0], exp(w))}; };
  Plan plan(traced({x}, body));
  Region region(Engine::current(), gpu(0), "update");
  for (int run = 0; run < 6; ++run) {
    Gate gate;
    const OpensAtEnd opens(gate);
    if (run % 2 == 1)
      Engine::current().push(
          {.name = "gate", .access = {write(step.object()->buffer->var())}}, [gate] { gate.wait(); });
    region.run(0, [&] {
      NDArray there = w;
      there += step;
    });
    const Arrays got = plan.run({&x, 1});
    gate.open();
    CHECK((all_bytes(got) == all_bytes(body({x}))));
  }
}

// Of several the memory comes to lie where it was, at an address that names other memory by then.
void check_gradient(Device device, int backwards) {
  CAPTURE(backwards);
  NDArray w = draw({4, 5}, 1, device);
  const NDArray x = draw({3, 4}, 2, device);
  w.attach_grad();
  const auto backward = [&](double factor) {
    const autograd::RecordScope record;
    (w * factor).backward();
  };
  backward(1);
  const NDArray grad = w.grad();
  const Body body = [&](const Arrays& in) { return Arrays{matmul(in[0], exp(grad))}; };
  Plan plan(traced({x}, body));
  CHECK(derived(plan.graph()) == 1);
  for (int run = 0; run < 5; ++run) {
    CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(body({x}))));
    for (int i = 0; i < backwards; ++i)
      backward(run * backwards + i + 2);
  }
}

void check_dead_names(Device device) {
  const NDArray x = draw({3, 4}, 1, device), w = draw({4, 5}, 2, device), flat = w.reshape({20});
  Plan plan(traced({x}, [&](const Arrays& in) {
    tanh(w);
    NDArray there = flat;
    there += 1.0;
    return Arrays{matmul(in[0], exp(x).T().copy())};
  }));
  CHECK(derived(plan.graph()) > 0);
  for (int run = 0; run < 4; ++run) {
    const std::uint64_t before = w.object()->buffer->version();
    plan.run({&x, 1});
    CHECK(w.object()->buffer->version() > before);
  }
}

void check_weights(Device device) {
  for (const DType dtype : {float16, bfloat16}) {
    const NDArray x = draw({2, 8, 6, 6}, 1, device, dtype), w = draw({8, 8, 3, 3}, 2, device, dtype),
                  narrow = draw({16, 8, 1, 1}, 3, device, dtype), wide = draw({8, 8, 3, 3}, 4, device);
    const ConvolutionOptions same{.pad = {1, 1}};
    const Body body = [&](const Arrays& in) {
      const NDArray twice = convolution(relu(convolution(in[0], w, {}, same)), w, {}, same);
      return Arrays{convolution(convolution(twice, wide.astype(dtype), {}, same), narrow, {})};
    };
    Plan plan(traced({x}, body));
    const auto check = [&] { CHECK((all_bytes(plan.run({&x, 1})) == all_bytes(body({x})))); };
    const auto count = [&](const std::string& name) {
      const auto& nodes = plan.graph().nodes;
      return std::count_if(nodes.begin(), nodes.end(), [&](const graph::Node& node) { return node.op->name == name; });
    };
    // One for both uses; of filters of one element every order is the same.
    CHECK(count("channels_last") == (device.is_gpu() ? 2 : 0));
    CHECK(derived(plan.graph()) == (device.is_gpu() ? 3 : 1));
    check();
    const Graph given = with_ordered_weights(
        traced({x, w}, [&](const Arrays& in) { return Arrays{convolution(in[0], in[1], {}, same)}; }));
    CHECK(given.nodes.size() == 1);
    for (const NDArray& one : {w, wide, narrow}) {
      one.assign(draw(one.shape(), 9, device, one.dtype()));
      check();
    }
  }
}

// On a GPU errors like this one are found behind what reads them.
void check_failures() {
  const NDArray x = draw({3, 4}, 1, cpu()), w = draw({4, 5}, 2, cpu());
  const Body body = [&](const Arrays& in) { return Arrays{matmul(in[0], exp(w))}; };
  Plan plan(traced({x}, body));
  const auto before = all_bytes(plan.run({&x, 1}));
  Engine::current().wait_all();
  const NDArray lost = take(w, array(std::vector<std::int32_t>{0, 1, 2, 70}, {4}));
  NDArray there = w;
  there += lost;  // misses this update, and is what it was otherwise
  const auto fails = [](const NDArray& array) {
    try {
      array.wait_to_read();
      return false;
    } catch (const IndexError&) {
      return true;
    }
  };
  CHECK(fails(w));  // from here on nothing is to come
  CHECK(fails(plan.run({&x, 1})[0]));
  CHECK(fails(plan.run({&x, 1})[0]));
  bool failed = false;
  try {
    plan.run({&x, 1})[0].wait_to_read();
  } catch (const IndexError& error) {
    failed = true;
    Engine::current().forgive(error);
  }
  CHECK(failed);
  CHECK((all_bytes(plan.run({&x, 1})) == before));
  CHECK((all_bytes(plan.run({&x, 1})) == before));
}

void check_threads(Device device) {
  const NDArray w = full({8, 8}, 1.0f, {.device = device}), x = full({2, 8}, 1.0f, {.device = device});
  Plan plan(traced({x}, [&](const Arrays& in) { return Arrays{matmul(in[0], square(w))}; }));
  Engine& engine = Engine::current();
  constexpr int k_threads = 6, k_rounds = 25;
  std::atomic<int> wrong{0};
  int round = 0;
  std::barrier written(k_threads, [&]() noexcept { w.assign(++round); });
  std::vector<std::thread> threads;
  for (int t = 0; t < k_threads; ++t) {
    threads.emplace_back([&] {
      const EngineScope here(engine);
      for (int i = 1; i <= k_rounds; ++i) {
        written.arrive_and_wait();
        for (int run = 0; run < 3; ++run)
          wrong += plan.run({&x, 1})[0].to_vector<float>() != std::vector<float>(16, static_cast<float>(8 * i * i));
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("What comes of constants alone is made again once one was written, not before", "[graph][derived]") {
  check_writes(cpu());
}
TEST_CASE("What comes of constants alone is made again on a GPU once one was written", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_writes(gpu());
}
TEST_CASE("A region that writes a constant again is seen by who keeps what comes of it", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_regions();
}

TEST_CASE("Weights are cast once", "[graph][derived]") {
  check_weights(cpu());
}
TEST_CASE("Weights on a GPU are cast, and brought into the order of tensor cores, once", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_weights(gpu());
}

TEST_CASE("What could not be made of constants is made once they are clean again", "[graph][derived]") {
  check_failures();
}

TEST_CASE("Threads share what a plan keeps of constants", "[graph][derived][concurrent]") {
  check_threads(cpu());
}
TEST_CASE("Threads share what a plan on a GPU keeps of constants", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_threads(gpu());
}

TEST_CASE("A gradient that lies elsewhere by now is a constant all the same", "[graph][derived]") {
  for (int backwards = 1; backwards < 5; ++backwards)
    check_gradient(cpu(), backwards);
}
TEST_CASE("A gradient that lies elsewhere on a GPU by now is a constant all the same", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (int backwards = 1; backwards < 5; ++backwards)
    check_gradient(gpu(), backwards);
}

TEST_CASE("Constants that only dead nodes named are written as the others are", "[graph][derived]") {
  check_dead_names(cpu());
}
TEST_CASE("Constants that only dead nodes named are written as the others are on a GPU", "[graph][derived][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_dead_names(gpu());
}
