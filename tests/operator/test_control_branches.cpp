// Branches that a GPU takes itself: cond as part of a plan's CUDA graph.
#include <algorithm>
#include <random>
#include <string>

#include "tests/engine/expect.h"
#include "tests/operator/control_cases.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;

namespace {

constexpr std::int64_t k_size = 5;

Arrays on_gpu(unsigned seed) {
  return {numbers_of(seed, {k_size}, float32, gpu(0)), numbers_of(seed + 100, {k_size}, float32, gpu(0))};
}

bool is_one_graph(const Plan& plan) {
  const std::vector<graph::PlanSegment> segments = plan.segments();
  INFO(graph::to_string(segments));
  CHECK(segments.size() == 1);
  return segments.size() == 1 && segments[0].captured;
}

/// A plan of the program, one CUDA graph, does what it does by hand for inputs that lie where the first ones did.
void check_branches(const Program& program, unsigned seeds = 6) {
  const Arrays inputs = on_gpu(1);
  const Graph graph = traced(program, inputs);
  Plan plan(graph), poisoned(graph, {.optimise = false, .share_in_order = true, .poison = true});
  for (unsigned seed = 1; seed <= seeds; ++seed) {
    CAPTURE(seed);
    const Arrays next = on_gpu(seed);
    for (std::size_t i = 0; i < inputs.size(); ++i)
      copy_into(next[i], inputs[i]);
    CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
    CHECK(all_bytes(poisoned.run(inputs)) == all_bytes(program(inputs)));
  }
  CHECK(is_one_graph(plan));
  CHECK(is_one_graph(poisoned));
  CHECK(plan.counts().in_order == 0);
}

// Uses x beside what it is given, gives two arrays, one of which is an input, and has a branch within.
Arrays nested(const NDArray& predicate, const NDArray& x, const NDArray& y) {
  return cond(
      predicate,
      [=](const Arrays& a) {
        const NDArray inner = cond(
            sum(a[0] * y) < 0,
            [=](const Arrays& b) { return Arrays{tanh(b[0] * x + 1)}; },
            [](const Arrays& b) { return Arrays{b[0].slice(0, -1, INT64_MIN, -1) - 2}; },
            {a[0]})[0];
        return Arrays{inner * y, a[0]};
      },
      [=](const Arrays& a) {
        return Arrays{softmax(a[0]) + x, exp(y)};
      },
      {x});
}

}  // namespace

TEST_CASE("A branch on a GPU is part of the plan's CUDA graph, whatever its predicate says", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_branches([](const Arrays& in) { return chosen(sum(in[0]) > 0, in[1], 2); });
  check_branches([](const Arrays& in) {
    const NDArray x = exp(in[0]) + in[1];
    const Arrays found = nested(sum(x) > 6, x, in[1] * 3);
    return Arrays{found[0] * in[1], found[1], x - found[0]};
  });
}

TEST_CASE("Branches of a GPU's graph follow each other and stand side by side", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_branches([](const Arrays& in) {
    NDArray x = in[0];
    for (int i = 0; i < 4; ++i)
      x = chosen(sum(x) > 0.1 * i, x, 0.5 + i)[0] + in[1];
    return Arrays{x};
  });
  check_branches([](const Arrays& in) {
    Arrays all;
    for (int i = 0; i < 4; ++i)
      all.push_back(matmul(chosen(sum(in[0]) > 0.5 * i - 1, in[i % 2].reshape({1, -1}), i)[0], in[1]));
    return Arrays{all[0] + all[1] * all[2], all[3]};
  });
}

TEST_CASE("Gradients of a branch on a GPU are part of the graph, too", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_branches([](const Arrays& in) {
    return with_gradients(
        [](const Arrays& x) { return Arrays{nested(sum(x[0]) > 0, x[0], x[1])[0]}; }, {in[0] * 1, in[1] * 1});
  });
}

TEST_CASE("A GPU takes the first side for any number that is not zero, and for NaN", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::vector<double> numbers{0, -0.0, 1, -1, 0.25, 1e-40, double(INFINITY), double(NAN)};
  for (const DType dtype : {float32, float64, float16, bfloat16, int32, int64, uint8, bool_}) {
    const Program program = [](const Arrays& in) { return chosen(in[0].slice(0, 1, 2), in[1], 2); };
    for (const double number : numbers) {
      if (!is_floating(dtype) && number != number)
        continue;
      CAPTURE(name_of(dtype), number);
      const double held =
          is_floating(dtype) ? number : static_cast<double>(static_cast<int>(std::abs(number) < 100 ? number : 7));
      const Arrays inputs{
          array(std::vector<double>{1 - held, held}, {2}).astype(dtype).to(gpu(0)),
          numbers_of(3, {4}, float32, gpu(0))};
      Plan plan(traced(program, inputs));
      CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
      CHECK(is_one_graph(plan));
    }
  }
}

TEST_CASE("An index that is none fails the graph where its side is taken, and there alone", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Program program = [](const Arrays& in) {
    return cond(
        in[0],
        [&](const Arrays& a) { return Arrays{take(a[0], in[1])}; },
        [](const Arrays& a) { return Arrays{a[0].slice(0, 0, 2)}; },
        {in[2]});
  };
  const auto inputs = [](int predicate) {
    return Arrays{
        full({}, predicate, {.dtype = int32, .device = gpu(0)}),
        array(std::vector<int>{1, 9}, {2}).astype(int64).to(gpu(0)),
        numbers_of(3, {4}, float32, gpu(0))};
  };
  Plan plan(traced(program, inputs(0)));
  for (int run = 0; run < 2; ++run) {
    CHECK(plan.run(inputs(0))[0].to_vector<float>() == inputs(0)[2].slice(0, 0, 2).to_vector<float>());
    const std::string text = text_of_error([&] { plan.run(inputs(1))[0].wait_to_read(); });
    INFO(text);
    CHECK(text.find("take") != std::string::npos);
    CHECK(text.find("9") != std::string::npos);
  }
}

namespace {

NDArray softmaxes(const NDArray& x, int count) {
  NDArray y = x;
  for (int i = 0; i < count; ++i)
    y = softmax(y);
  return y;
}

/// A branch of so many softmaxes on either side, in a branch of none.
Program branch_of_softmaxes(int first, int second) {
  return [=](const Arrays& in) {
    return cond(
        in[0],
        [&](const Arrays& a) {
          return cond(
              in[1],
              [=](const Arrays& b) { return Arrays{softmaxes(b[0], first)}; },
              [=](const Arrays& b) { return Arrays{softmaxes(b[0], second)}; },
              a);
        },
        [](const Arrays& a) { return Arrays{exp(a[0])}; },
        {in[2]});
  };
}

Arrays inputs_of(const Shape& shape, unsigned seed, int first, int second) {
  return {
      full({}, first, {.dtype = int32, .device = gpu(0)}),
      full({}, second, {.dtype = int32, .device = gpu(0)}),
      numbers_of(seed, shape, float32, gpu(0))};
}

}  // namespace

TEST_CASE("What bodies of branches make is part of the plan's memory, once for both sides", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Shape shape{64, 1024};
  const std::size_t one = 64 * 1024 * sizeof(float);
  const auto memory_of = [&](int first, int second) {
    return Plan(traced(branch_of_softmaxes(first, second), inputs_of(shape, 1, 1, 1))).memory().bytes;
  };
  const std::size_t none = memory_of(1, 1);  // what is made last is the result
  CHECK(memory_of(2, 1) == none + one);
  CHECK(memory_of(3, 1) == none + 2 * one);
  CHECK(memory_of(6, 1) == none + 2 * one);
  CHECK(memory_of(1, 6) == none + 2 * one);
  CHECK(memory_of(6, 6) == none + 2 * one);

  std::vector<Arrays> inputs;  // at addresses of their own
  for (int run = 0; run < 3; ++run)
    inputs.push_back(inputs_of(shape, 1, 1, run % 2));
  Plan plan(traced(branch_of_softmaxes(6, 5), inputs[0]));
  std::uint64_t allocated = 0;
  for (const Arrays& each : inputs) {
    CHECK(all_bytes(plan.run(each)) == all_bytes(branch_of_softmaxes(6, 5)(each)));
    Engine::current().wait_all();
    const std::uint64_t now = memory_stats(gpu(0)).allocated;
    CHECK((allocated == 0 || now < allocated + one));  // another recording has the same memory
    allocated = std::max(allocated, now);
  }
  CHECK(plan.counts().captured > 1);
}

TEST_CASE("What has failed in a branch does not fail the runs that follow", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Shape shape{3, 4};
  const Program program = branch_of_softmaxes(3, 2);
  for (const bool keeps : {false, true}) {
    Plan plan(traced(program, inputs_of(shape, 1, 1, 1)), {.keep_results = keeps});
    for (int run = 0; run < 4; ++run) {
      CAPTURE(keeps, run);
      Arrays inputs = inputs_of(shape, 1, 1, run % 2);
      CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
      inputs[2] = take(ones({2, 4}), array<int>({0, 1, 2})).to(gpu(0));
      CHECK_THROWS_AS(plan.run(inputs)[0].wait_to_read(), IndexError);
    }
    CHECK(is_one_graph(plan));
  }
}

TEST_CASE("A predicate in a part of an array is awaited, and fails, as that part", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray flags = zeros({2, 1}, {.dtype = bool_, .device = gpu(0)});
  flags.partition(0, 2);
  const Program program = [=](const Arrays& in) { return chosen(flags.slice(0, 1, 2), in[0], 2); };
  const Arrays inputs = on_gpu(1);
  Plan plan(traced(program, inputs));
  for (const bool truth : {true, false}) {
    flags.slice(0, 1, 2).assign(truth);
    CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
  }
  flags.slice(0, 1, 2).assign(take(zeros({1, 1}, {.dtype = bool_}), array<int>({1})).to(gpu(0)));
  CHECK_THROWS_AS(plan.run(inputs)[0].wait_to_read(), IndexError);
  flags.assign(true);
  CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
  CHECK(is_one_graph(plan));
}

TEST_CASE("Bodies take arrays however they lie, and give what they were given", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_branches([](const Arrays& in) {
    const NDArray x = exp(in[0]).reshape({1, k_size}), y = (x * in[1].reshape({k_size, 1})).transpose();
    return cond(
        sum(in[0]) > 0,
        [](const Arrays& a) {
          const NDArray s = softmax(a[0]);
          return Arrays{s, s.transpose(), a[0], s};
        },
        [](const Arrays& a) {
          return Arrays{a[0].slice(0, -1, INT64_MIN, -1), a[0], softmax(a[0]).transpose(), a[0]};
        },
        {y});
  });
}

TEST_CASE("A branch whose side asks for another device stays with the host", "[control][graph][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Program program = [](const Arrays& in) {
    const NDArray x = exp(in[0]);
    return Arrays{
        cond(
            sum(x) > 6,
            [](const Arrays& a) { return Arrays{a[0].to(cpu()).to(gpu(0)) * 2}; },
            [](const Arrays& a) { return Arrays{a[0] - 1}; },
            {x})[0] *
        in[1]};
  };
  const Arrays inputs = on_gpu(1);
  Plan plan(traced(program, inputs));
  CHECK(all_bytes(plan.run(inputs)) == all_bytes(program(inputs)));
  CHECK(plan.segments().size() == 3);
}
