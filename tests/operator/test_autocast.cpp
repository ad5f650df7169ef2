// amp::autocast(): which calls are cast, how often a variable is, and what gradients come of it.
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sluice/engine/engine.h>
#include <sluice/operator/api.h>
#include <sluice/operator/autocast.h>
#include <sluice/operator/sink.h>

#include "tests/operator/counted_casts.h"
#include "tests/support/catch.h"

using namespace sluice;
using namespace sluice::test;

namespace {

NDArray some(const Shape& shape, int start = 1) {
  std::vector<float> values(static_cast<std::size_t>(shape.size()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 37 + start) % 101 - 50) / 40.0F;
  return array(values, shape);
}

NDArray variable(const Shape& shape, int start = 1) {
  NDArray made = some(shape, start);
  made.attach_grad();
  return made;
}

std::vector<float> floats(const NDArray& array) {
  return array.astype(float32).to_vector<float>();
}

}  // namespace

TEST_CASE("A call of a scope of autocast is of the type that its operator's list says", "[operator][amp]") {
  const DType low = GENERATE(bfloat16, float16);
  const NDArray x = some({3, 4}), w = some({5, 4}, 7), half = x.astype(low);
  CHECK(matmul(x, w, false, true).dtype() == float32);
  const auto cast = amp::autocast(low);
  CHECK(amp::autocast_dtype() == low);
  const NDArray y = matmul(x, w, false, true);
  CHECK(y.dtype() == low);
  CHECK(floats(y) == floats(matmul(half, w.astype(low), false, true)));
  CHECK(dense(x, w, {}, {}).dtype() == low);
  CHECK(exp(half).dtype() == float32);
  CHECK(floats(exp(half)) == floats(exp(half.astype(float32))));
  CHECK(sum(half).dtype() == float32);
  CHECK(softmax(half).dtype() == float32);
  CHECK((half + x).dtype() == float32);
  CHECK((half + half).dtype() == low);
  CHECK((half * 3).dtype() == low);
  CHECK(relu(half).dtype() == low);
  CHECK(relu(x).dtype() == float32);
  CHECK(half.reshape({4, 3}).dtype() == low);
  CHECK(matmul(some({0, 4}), w, false, true).dtype() == low);
  CHECK(matmul(some({3, 1}).broadcast_to({3, 4}), w, false, true).dtype() == low);
}

TEST_CASE("Autocast leaves float64 and whole numbers, and brings one half type to the other", "[operator][amp]") {
  const NDArray x = some({3, 3});
  const auto cast = amp::autocast(float16);
  CHECK(matmul(x.astype(float64), x.astype(float64)).dtype() == float64);
  CHECK(matmul(x, x.astype(float64)).dtype() == float64);
  CHECK(matmul(x.astype(int64), x.astype(int64)).dtype() == int64);
  CHECK(matmul(x.astype(bfloat16), x.astype(bfloat16)).dtype() == float16);
  CHECK(exp(x.astype(float64)).dtype() == float64);
  CHECK(power(x.astype(float16), x.astype(float64)).dtype() == float64);
  CHECK((x.astype(bfloat16) + x.astype(float16)).dtype() == float32);
  CHECK(sum(x.astype(int32)).dtype() == int64);
}

TEST_CASE("Scopes of autocast nest, can be switched off, and end with an exception", "[operator][amp]") {
  const NDArray x = some({2, 2});
  CHECK_FALSE(amp::autocast_dtype().has_value());
  {
    const auto outer = amp::autocast(float16);
    {
      const auto off = amp::autocast(float16, false);
      CHECK_FALSE(amp::autocast_dtype().has_value());
      CHECK(matmul(x, x).dtype() == float32);
      CHECK(sum(x.astype(float16)).dtype() == float16);
      const auto again = amp::autocast(bfloat16);
      CHECK(matmul(x, x).dtype() == bfloat16);
    }
    CHECK(matmul(x, x).dtype() == float16);
    try {
      const auto inner = amp::autocast(bfloat16);
      matmul(x, some({3, 2}));
      FAIL("shapes do not fit");
    } catch (const ShapeError&) {
      CHECK(amp::autocast_dtype() == float16);
      CHECK_THROWS_AS(matmul(x, some({3, 2})), ShapeError);  // while the first is handled
    }
    CHECK(matmul(x, x).dtype() == float16);
    CHECK_THROWS_AS(amp::autocast(float32), DTypeError);
    CHECK_THROWS_WITH(amp::autocast(int32), sluice::test::contains("int32"));
    CHECK(amp::autocast_dtype() == float16);
    CHECK_NOTHROW(amp::autocast(float32, false));
  }
  CHECK_FALSE(amp::autocast_dtype().has_value());
  CHECK(matmul(x, x).dtype() == float32);
}

TEST_CASE("Scopes of autocast are a thread's own, and no task's", "[operator][amp]") {
  const NDArray x = some({8, 8});
  std::atomic<bool> right{true};
  const auto check = [&](std::optional<DType> low) {
    for (int turn = 0; turn < 50; ++turn) {
      const amp::AutocastScope scope(low);
      right = right && matmul(x, x).dtype() == low.value_or(float32);
    }
    right = right && matmul(x, x).dtype() == float32;
  };
  std::thread a([&] { check(bfloat16); }), b([&] { check(float16); }), c([&] { check(std::nullopt); });
  a.join();
  b.join();
  c.join();
  CHECK(right);
  const auto here = amp::autocast(float16);
  std::thread other([&] { right = right && !amp::autocast_dtype(); });
  other.join();
  std::atomic<bool> in_task{false};
  Engine serial({.cpu_policy = CpuMode::serial});
  const Var var = serial.new_var();
  serial.push({.name = "look", .access = {write(var)}}, [&](Queue) { in_task = amp::autocast_dtype().has_value(); });
  serial.wait(var);
  CHECK(right);
  CHECK_FALSE(in_task);
}

TEST_CASE("A variable is cast once in a scope, until it is written", "[operator][amp]") {
  const NDArray x = some({2, 4});
  NDArray w = variable({4, 4});
  Casts casts;
  const CallSinkScope here(&casts);
  const auto use = [&] { return matmul(x, w).dtype(); };
  const autograd::RecordScope record;
  {
    const auto cast = amp::autocast(float16);
    CHECK(use() == float16);
    CHECK(casts.count == 2);  // x too
    use();
    CHECK(casts.count == 3);  // x alone, which is no variable
    {
      const auto inner = amp::autocast(float16);
      use();
      const auto off = amp::autocast(float16, false);
      const auto on = amp::autocast(float16);
      use();
    }
    CHECK(casts.count == 5);
    {
      const auto other = amp::autocast(bfloat16);
      CHECK(use() == bfloat16);
      CHECK(casts.count == 7);
    }
    use();
    CHECK(casts.count == 8);
    {
      const autograd::PauseScope pause;  // what is recorded is no use here, nor the other way round
      use();
      CHECK(casts.count == 10);
      use();
      CHECK(casts.count == 11);
    }
    const NDArray before = matmul(x, w);
    casts.count = 0;
    {
      const autograd::PauseScope pause;
      copy_into(w * 2, w);
    }
    const NDArray after = matmul(x, w);
    CHECK(casts.count == 2);
    CHECK(floats(after) == floats(before * 2));
    casts.count = 0;
    w.attach_grad();  // another variable of the tape
    use();
    CHECK(casts.count == 2);
  }
  casts.count = 0;
  const auto next = amp::autocast(float16);
  use();
  CHECK(casts.count == 2);
}

TEST_CASE(
    "Gradients under autocast come back in the variable's type, and are those of casts by hand", "[operator][amp]") {
  const DType low = GENERATE(bfloat16, float16);
  const bool inside = GENERATE(false, true);
  const NDArray x = some({6, 4});
  const NDArray w = variable({5, 4}, 3), v = variable({5, 5}, 9);
  const auto loss_of = [](const NDArray& a, const NDArray& b, const NDArray& c) {
    const NDArray hidden = relu(matmul(a, b, false, true));
    return matmul(matmul(hidden, c), c);
  };
  std::vector<float> by_hand[2];
  {
    const NDArray w2 = variable({5, 4}, 3), v2 = variable({5, 5}, 9);
    NDArray loss;
    {
      const autograd::RecordScope record;
      loss = sum(exp(loss_of(x.astype(low), w2.astype(low), v2.astype(low)).astype(float32)));
    }
    loss.backward();
    by_hand[0] = floats(w2.grad());
    by_hand[1] = floats(v2.grad());
  }
  std::optional<amp::AutocastScope> scope;
  scope.emplace(low);
  NDArray loss;
  {
    const autograd::RecordScope record;
    loss = sum(exp(loss_of(x, w, v)));
  }
  CHECK(loss.dtype() == float32);
  if (!inside)
    scope.reset();
  loss.backward();
  CHECK(w.grad().dtype() == float32);
  CHECK(floats(w.grad()) == by_hand[0]);
  CHECK(floats(v.grad()) == by_hand[1]);
}

TEST_CASE("Losses that share a variable in one scope go back one after the other", "[operator][amp]") {
  const NDArray x = some({2, 3});
  NDArray w = some({3, 3});
  w.attach_grad(GradReq::add);
  const auto cast = amp::autocast(bfloat16);
  NDArray first, second;
  {
    const autograd::RecordScope record;
    first = sum(matmul(x, w));
    second = sum(matmul(x * 2, w));
  }
  first.backward();
  const std::vector<float> once = floats(w.grad());
  second.backward();
  const std::vector<float> both = floats(w.grad());
  NDArray third;
  {
    const autograd::RecordScope record;
    third = sum(matmul(x, w));  // by the same cast
  }
  third.backward();
  const std::vector<float> all = floats(w.grad());
  for (std::size_t i = 0; i < once.size(); ++i) {
    CHECK(both[i] == Approx(3 * once[i]).epsilon(0.02));
    CHECK(all[i] == Approx(4 * once[i]).epsilon(0.02));
  }
  CHECK_THROWS_AS(first.backward(), AutogradError);  // that program is used up
}

TEST_CASE("Autocast casts nothing that is written in place, and no view", "[operator][amp]") {
  const auto cast = amp::autocast(float16);
  NDArray a = some({2, 3});
  const NDArray half = some({2, 3}, 5).astype(float16);
  Casts casts;
  {
    const CallSinkScope here(&casts);
    const NDArray row = a.slice(0, 0, 1);
    CHECK(row.dtype() == float32);
    a.expand_dims(0).transpose();
    CHECK(casts.count == 0);
  }
  a += half;
  CHECK(a.dtype() == float32);
  NDArray b = half.copy();
  b += some({2, 3});
  CHECK(b.dtype() == float16);
  const NDArray to = zeros({2, 2});
  const NDArray inputs[] = {a, a};
  const Operator& op = *find_operator("matmul");
  invoke(op, inputs, parse_attributes(op, "transpose_b=true"), SourceLocation::current(), {&to, 1});
  const std::vector<float> written = floats(to);
  const auto off = amp::autocast(float16, false);
  CHECK(written == floats(matmul(a, a, false, true)));
}

TEST_CASE("Batch norm under autocast keeps float32 statistics of half arrays", "[operator][amp]") {
  const DType low = GENERATE(bfloat16, float16);
  const NDArray x = some({4, 3, 2, 2}).astype(low), gamma = variable({3}), beta = variable({3}, 4);
  NDArray mean = zeros({3}), variance = ones({3});
  NDArray y;
  {
    const auto cast = amp::autocast(low);
    const autograd::RecordScope record;
    y = batch_norm(x, gamma, beta, mean, variance);
  }
  CHECK(y.dtype() == low);
  CHECK(mean.dtype() == float32);
  CHECK(floats(mean) != std::vector<float>(3, 0));
  CHECK(floats(variance) != std::vector<float>(3, 1));
  y.backward();
  CHECK(gamma.grad().dtype() == float32);
}

TEST_CASE("A checkpoint goes through its segment again as autocast had it", "[operator][amp]") {
  const bool twice = GENERATE(false, true);
  const auto gradient_of = [&](bool keep) {
    const NDArray x = some({3, 4}), w = variable({4, 4});
    NDArray loss;
    {
      const auto cast = amp::autocast(bfloat16);
      const autograd::RecordScope record;
      const auto segment = [&](const NDArray& given) { return tanh(matmul(given, w)); };
      NDArray y = matmul(x, w);
      for (int i = 0; i < (twice ? 2 : 1); ++i)
        y = keep ? segment(y) : autograd::checkpoint(segment, y);
      loss = sum(y);
    }
    loss.backward();
    return floats(w.grad());
  };
  const std::vector<float> kept = gradient_of(true), again = gradient_of(false);
  REQUIRE(kept.size() == again.size());
  for (std::size_t i = 0; i < kept.size(); ++i)  // each segment's gradient is rounded by itself
    CHECK(again[i] == Approx(kept[i]).epsilon(0.02).margin(0.02));
}

TEST_CASE("What is traced in a scope has its casts, a variable's once", "[operator][amp]") {
  const NDArray x = some({2, 4}), w = variable({4, 4});
  const auto casts_in = [](const graph::Graph& graph) {
    std::size_t found = 0;
    for (const graph::Node& node : graph.nodes)
      found += std::string(node.op->name) == "astype" ? 1 : 0;
    return found;
  };
  const auto traced = [&] {
    graph::Tracer tracer;
    const NDArray given = tracer.input({x.shape(), x.dtype(), x.device()});
    return tracer.trace([&] { return Arrays{matmul(matmul(given, w), w)}; });
  };
  CHECK(casts_in(traced()) == 0);
  const auto cast = amp::autocast(float16);
  const NDArray eager = matmul(matmul(x, w), w);
  for (int turn = 0; turn < 3; ++turn) {  // tracers lie where the last one lay; what ran is no part of them
    const graph::Graph graph = traced();
    CHECK(casts_in(graph) == 2);
    graph::Plan plan(graph);
    CHECK(floats(plan.run({&x, 1})[0]) == floats(eager));
    const auto off = amp::autocast(float16, false);
    CHECK(floats(plan.run({&x, 1})[0]) == floats(eager));
  }
  graph::Tracer again;  // a graph that was traced without casts has none made again in a scope
  const graph::Graph plain = [&] {
    const auto off = amp::autocast(float16, false);
    return traced();
  }();
  graph::Plan plan(plain);
  CHECK(plan.run({&x, 1})[0].dtype() == float32);
}

TEST_CASE("Operators from outside have a rule once it is given, and those of ours no second one", "[operator][amp]") {
  CHECK_THROWS_WITH(amp::set_cast_rule("nobody_knows", amp::CastRule::low), sluice::test::contains("nobody_knows"));
  CHECK_THROWS_AS(amp::set_cast_rule("add", amp::CastRule::low), ValueError);
  CHECK_THROWS_AS(amp::set_cast_rule("relu", amp::CastRule::neutral), ValueError);
  CHECK_THROWS_AS(amp::set_cast_rule("relu_backward", amp::CastRule::low), ValueError);
  auto op = std::make_shared<Operator>(*find_operator("relu"));
  op->name = "relu_of_autocast_test";
  register_operator(op);
  CHECK(amp::cast_rule(op->name) == amp::CastRule::neutral);
  const NDArray x = some({3});
  const auto cast = amp::autocast(float16);
  const auto call = [&] { return invoke_one(*op, {x}, {}, SourceLocation::current()).dtype(); };
  CHECK(call() == float32);
  amp::set_cast_rule(op->name, amp::CastRule::low);
  CHECK(call() == float16);
  CHECK_THROWS_AS(amp::set_cast_rule(op->name, amp::CastRule::low), ValueError);
}
