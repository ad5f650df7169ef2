// What of a traced program is needed for its results alone, what it leaves of the tape, and what its gradients keep.
#include <algorithm>
#include <string_view>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/graph/split.h>

#include "tests/support/catch.h"

using namespace sluice;
using graph::Graph;
using graph::Tracer;

namespace {

ArraySpec spec(const Shape& shape) {
  return {shape, float32, cpu()};
}

std::ptrdiff_t count(const Graph& graph, std::string_view name) {
  return std::count_if(
      graph.nodes.begin(), graph.nodes.end(), [&](const graph::Node& node) { return node.op->name == name; });
}

}  // namespace

TEST_CASE("For the outputs alone writes to other memory are not needed", "[graph]") {
  const NDArray average = zeros({3}), read = zeros({3}), untouched = ones({3});
  Tracer tracer;
  const NDArray x = tracer.input(spec({3}));
  const Graph whole = tracer.trace([&] {
    average.assign(average * 0.5 + exp(x));
    const NDArray before = tanh(x) + read;  // what the node behind it writes is not what was read
    read.assign(sin(x));
    NDArray made = cos(x);
    made.slice(0, 1, 2).assign(untouched.slice(0, 0, 1));
    (void)square(made);
    return Arrays{before, made};
  });
  const Graph less = for_outputs_alone(whole);
  verify(less);
  CHECK(count(less, "exp") == 0);
  CHECK(count(less, "square") == 0);
  CHECK(count(less, "sin") == 1);
  CHECK(count(less, "cos") == 1);
  CHECK(count(less, "copy") == 2);
  CHECK(less.inputs == whole.inputs);
  CHECK(less.outputs == whole.outputs);
  CHECK_FALSE(writes_inputs(whole));
  const std::vector<NDArray> steady = steady_constants(less);
  REQUIRE(steady.size() == 1);
  CHECK(steady[0].same(untouched));
  const NDArray given = array<float>({1, 2, 3});
  const Arrays results = evaluate(less, {&given, 1});
  CHECK(results[0].to_vector<float>() == tanh(given).to_vector<float>());
  CHECK(average.to_vector<float>() == std::vector<float>(3, 0.0f));
}

TEST_CASE("A graph says whether it writes its inputs, through views too", "[graph]") {
  for (const int how : {0, 1, 2}) {
    Tracer tracer;
    const NDArray x = tracer.input(spec({3})), y = tracer.input(spec({3}));
    const Graph whole = tracer.trace([&] {
      if (how == 1)
        x.slice(0, 0, 0).assign(1.0);
      if (how == 2)
        copy_into(x, y);
      return Arrays{x + y};
    });
    CHECK(writes_inputs(whole) == (how != 0));
  }
}

TEST_CASE("Gradients of a traced program keep no array for its shape", "[graph]") {
  Tracer tracer;
  NDArray x = tracer.input(spec({4, 3}));
  graph::SplitPlace place;
  const Graph joint = tracer.trace([&] {
    x.attach_grad();
    NDArray result;
    {
      const autograd::RecordScope record;
      result = sum(sum(x * 2.0, {1}), {0}, true);
    }
    place = {tracer.size(), 1, 1};
    const NDArray gradient = tracer.late_input(spec({1}));
    const auto found = autograd::grad({&result, 1}, {&x, 1}, {&gradient, 1});
    return Arrays{result, found[0]};
  });
  const graph::SplitGraph parts = graph::split(joint, place);
  CHECK(parts.saved.empty());
  const NDArray given = full({1}, 3.0);
  const Arrays found = evaluate(parts.backward, {&given, 1});
  CHECK(found[0].shape() == Shape{4, 3});
  CHECK(found[0].to_vector<float>() == std::vector<float>(12, 6.0f));
}

TEST_CASE("Gradients look at views of what a program made as it did, and the whole is kept once", "[graph]") {
  Tracer tracer;
  NDArray x = tracer.input(spec({2, 5, 12}));
  graph::SplitPlace place;
  const Graph joint = tracer.trace([&] {
    x.attach_grad();
    NDArray result;
    {
      const autograd::RecordScope record;
      const NDArray whole = x * 2.0;
      const NDArray a = whole.slice(2, 0, 4), b = whole.slice(2, 4, 8).swapaxes(1, 2), c = x.slice(2, 8, 12);
      result = matmul(matmul(a, b), c);
    }
    place = {tracer.size(), 1, 1};
    const NDArray gradient = tracer.late_input(spec({2, 5, 4}));
    const auto found = autograd::grad({&result, 1}, {&x, 1}, {&gradient, 1});
    return Arrays{result, found[0]};
  });
  const graph::SplitGraph parts = graph::split(joint, place);
  const auto is_whole = [&](graph::ValueId id) { return joint.values[id].spec.shape == Shape{2, 5, 12}; };
  CHECK(std::count_if(parts.saved.begin(), parts.saved.end(), is_whole) == 2);  // x itself, and twice that
  CHECK(parts.saved.size() == 3);                                               // and the inner product
  std::size_t views = 0;
  for (const graph::Node& node : parts.backward.nodes) {
    const auto& saved = parts.saved;
    views += node.is_view() && std::find(saved.begin(), saved.end(), node.inputs[0]) != saved.end() ? 1 : 0;
  }
  CHECK(views == 3);
}

TEST_CASE("Gradients look at what a program put together as it did", "[graph]") {
  Tracer tracer;
  NDArray x = tracer.input(spec({3, 4}));
  graph::SplitPlace place;
  const Graph joint = tracer.trace([&] {
    x.attach_grad();
    NDArray result;
    {
      const autograd::RecordScope record;
      const NDArray whole = zeros({6, 4});
      {
        const autograd::PauseScope pause;
        whole.assign(concat({exp(x.detach()), sin(x.detach())}, 0));
      }
      result = matmul(x, whole.slice(0, 1, 5).swapaxes(0, 1));
    }
    place = {tracer.size(), 1, 1};
    const NDArray gradient = tracer.late_input(spec({3, 4}));
    const auto found = autograd::grad({&result, 1}, {&x, 1}, {&gradient, 1});
    return Arrays{result, found[0]};
  });
  const graph::SplitGraph parts = graph::split(joint, place);
  REQUIRE(parts.saved.size() == 1);
  CHECK(joint.values[parts.saved[0]].spec.shape == Shape{6, 4});
  const NDArray given = array<float>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}).reshape({3, 4}), head = given * 0.5;
  const Arrays made = evaluate(parts.forward, {&given, 1});
  const std::vector<NDArray> from{made[1], head};
  const NDArray whole = concat({exp(given), sin(given)}, 0);
  CHECK(evaluate(parts.backward, from)[0].to_vector<float>() == matmul(head, whole.slice(0, 1, 5)).to_vector<float>());
}

TEST_CASE("The tape of a traced program sees writes to arrays without memory", "[graph][tape]") {
  // To what was saved, through a detached handle, a view or of a view; and by an operator that changes an input.
  using Write = void (*)(const NDArray&);
  const Write writes[] = {
      [](const NDArray& t) { t.detach().assign(1.0); },
      [](const NDArray& t) { t.slice(0, 0, 1).assign(full({1}, 2.0)); },
      [](const NDArray& t) {
        t.reshape({3, 1}).slice(0, 0, 0).assign(2.0);
      },
      [](const NDArray& t) {
        NDArray same = t.detach();
        same *= 2.0;
      }};
  for (const Write write : writes) {
    CAPTURE(&write - writes);
    const auto gradient = [&](bool is_written, const NDArray& other) {
      Tracer tracer;
      NDArray x = tracer.input(spec({3}));
      (void)tracer.trace([&] {
        x.attach_grad();
        NDArray result;
        {
          const autograd::RecordScope record;
          const NDArray t = x * 2.0;
          result = square(t) * other;
          const autograd::PauseScope pause;
          write(is_written ? t : t.copy());
        }
        return Arrays{autograd::grad({&result, 1}, {&x, 1})[0]};
      });
    };
    CHECK_THROWS_AS(gradient(true, ones({3})), AutogradError);
    CHECK_NOTHROW(gradient(false, ones({3})));
  }
  // Memory that was there before, too.
  const NDArray scale = ones({3});
  Tracer tracer;
  NDArray x = tracer.input(spec({3}));
  const auto program = [&] {
    x.attach_grad();
    NDArray result;
    {
      const autograd::RecordScope record;
      result = x * scale;
    }
    scale.assign(2.0);
    return Arrays{autograd::grad({&result, 1}, {&x, 1})[0]};
  };
  CHECK_THROWS_AS(tracer.trace(program), AutogradError);
  CHECK(scale.to_vector<float>() == std::vector<float>(3, 1.0f));  // nothing ran
}
