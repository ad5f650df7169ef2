// Segments that run again in backward, hooks of gradients, and the search for NaN.
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Values = std::vector<float>;
using Grads = std::vector<NDArray>;

NDArray variable(const Values& values) {
  NDArray x = array(values, {static_cast<std::int64_t>(values.size())});
  x.attach_grad();
  return x;
}

/// A program with a segment in the middle that reads a parameter and an intermediate result which it is not given.
struct Program {
  NDArray x = variable({0.5f, -1, 2}), w = variable({1, 2, 3}), unused = variable({1});
  int runs = 0;

  NDArray run(bool again) {
    const NDArray h = exp(x * w), outside = sin(w);
    const autograd::Segment segment = [&, outside](std::span<const NDArray> in) {
      ++runs;
      const NDArray a = tanh(in[0] * w) * outside;
      return Grads{a * a, dropout(exp(a), 0.5), in[1].detach()};
    };
    const std::vector<NDArray> in = {h, x};
    const Grads out = again ? autograd::checkpoint(segment, in) : segment(in);
    return sum(out[0] * h) + sum(out[1]) + sum(out[2] * outside) + sum(random::uniform({5}));
  }
};

/// The bits of value and gradients, drawn from one seed.
std::vector<Values> run(bool again, bool twice) {
  random::seed(3);
  Program program;
  std::vector<Values> found;
  const auto note = [&](const NDArray& array) { found.push_back(array.to_vector<float>()); };
  {
    const autograd::RecordScope record;
    const NDArray y = program.run(again);
    note(y);
    Grads grads = autograd::grad(std::vector{y}, std::vector{program.x, program.w}, {}, {.create_graph = twice});
    for (const NDArray& grad : grads)
      note(grad);
    if (twice) {
      grads = autograd::grad(std::vector{sum(grads[0] * grads[0]) + sum(grads[1])}, std::vector{program.x, program.w});
      for (const NDArray& grad : grads)
        note(grad);
    }
  }
  note(random::uniform({4}));  // the numbers go on as if nothing had run again
  CHECK(program.runs >= (again ? 2 : 1));
  return found;
}

}  // namespace

TEST_CASE("A segment that runs again gives what one gives that did not", "[autograd][checkpoint]") {
  for (const bool twice : {false, true}) {
    const std::vector<Values> again = run(true, twice), once = run(false, twice);
    REQUIRE(again.size() == once.size());
    CHECK((again.front() == once.front() && again.back() == once.back()));
    // Parts of the gradients of x and w come from both sides: they are added in another order.
    for (std::size_t i = 0; i < once.size(); ++i)
      CHECK(differences(variable(again[i]), variable(once[i]), {1e-6, 1e-6}) == "");
  }
}

TEST_CASE("Gradients that come out of a segment alone have the bits of one that ran once", "[autograd][checkpoint]") {
  const NDArray x = random_array({300}, 4, -2, 2), w = random_array({300}, 5, -2, 2);
  const auto gradients = [&](bool again) {
    NDArray a = x.copy(), b = w.copy();
    a.attach_grad();
    b.attach_grad();
    random::seed(5);
    const auto segment = [&](const NDArray& in) { return dropout(tanh(in * b) * sigmoid(b), 0.4); };
    const autograd::RecordScope record;
    (again ? autograd::checkpoint(segment, a) : segment(a)).backward();
    return std::pair(a.grad().to_vector<float>(), b.grad().to_vector<float>());
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("Backward through a segment reaches variables, and segments nest", "[autograd][checkpoint]") {
  const NDArray x = variable({1, 2}), w = variable({3, 4});
  int outer = 0, inner = 0;
  const auto program = [&](const NDArray& in) {
    ++outer;
    const NDArray h = in * w;  // read by the inner segment and beside it
    return autograd::checkpoint([&](const NDArray& a) { return ++inner, square(a * w); }, h) * h;
  };
  {
    const autograd::RecordScope record;
    autograd::checkpoint(program, x).backward();
  }
  CHECK((outer == 2 && inner == 3));
  // x^3 w^5
  CHECK(x.grad().to_vector<float>() == Values{3 * 243, 3 * 4 * 1024});
  CHECK(w.grad().to_vector<float>() == Values{5 * 81, 5 * 8 * 256});
}

TEST_CASE("A segment keeps its inputs alone until backward", "[autograd][checkpoint]") {
  NDArray v = zeros({1 << 16});
  v.attach_grad();
  const auto held = [&](bool again) {
    const auto before = Storage::of(v.engine()).pool(cpu()).stats().allocated;
    const autograd::Segment segment = [](std::span<const NDArray> in) {
      NDArray a = in[0];
      for (int i = 0; i < 8; ++i)
        a = exp(a) * a;
      return Grads{a};
    };
    const autograd::RecordScope record;
    const Grads out = again ? autograd::checkpoint(segment, std::span(&v, 1)) : segment(std::span(&v, 1));
    out[0].wait_to_read();
    v.engine().wait_all();
    return Storage::of(v.engine()).pool(cpu()).stats().allocated - before;
  };
  const auto plain = held(false), again = held(true);
  CHECK(again <= (std::uint64_t{1} << 18) + 4096);  // its result
  CHECK(plain >= 8 * again);
}

TEST_CASE("Segments off the tape, traced ones, and ones that change", "[autograd][checkpoint]") {
  const NDArray x = variable({1, 2});
  int runs = 0;
  const auto segment = [&](const NDArray& in) { return ++runs, exp(in); };
  CHECK(!autograd::on_tape(autograd::checkpoint(segment, x)));
  CHECK(runs == 1);
  {
    const autograd::RecordScope record;
    CHECK(!autograd::on_tape(autograd::checkpoint(segment, array(Values{1}, {1}))));  // nothing asks for gradients
    const NDArray y =
        autograd::checkpoint([&](const NDArray& in) { return ++runs > 3 ? exp(in).slice(0, 0, 1) : exp(in); }, x);
    CHECK_THROWS_WITH(
        y.backward(), sluice::test::contains("result 0 of the segment was") && sluice::test::contains("ran again"));
    const NDArray z = autograd::checkpoint(segment, x);
    z.backward();
    CHECK_THROWS_AS(z.backward(), AutogradError);
    const NDArray again = autograd::checkpoint(segment, x);
    x.detach().assign(5);
    CHECK_THROWS_WITH(again.backward(), sluice::test::contains("was written after forward"));
  }
  CHECK_THROWS_AS(autograd::checkpoint(autograd::Segment(), std::span(&x, 1)), ValueError);
  CHECK_THROWS_AS(autograd::checkpoint(segment, NDArray()), ValueError);
}

TEST_CASE(
    "What a segment throws when it runs again comes out of backward, and the random numbers stay",
    "[autograd][checkpoint]") {
  const NDArray x = variable({1, 2});
  int runs = 0;
  NDArray y;
  {
    const autograd::RecordScope record;
    y = autograd::checkpoint(
        [&](const NDArray& in) {
          const NDArray noise = random::uniform({2});
          require<ValueError>(++runs < 2, [] { return "the second time"; });
          return in * noise;
        },
        x);
  }
  const RandomBlock before = Engine::current().random_state();
  CHECK_THROWS_WITH(y.backward(), sluice::test::contains("the second time"));
  const RandomBlock after = Engine::current().random_state();
  CHECK((before.seed == after.seed && before.offset == after.offset));
  CHECK(!autograd::is_recording());
}

TEST_CASE("Hooks see whole gradients, may change them, and go", "[autograd][hook]") {
  const NDArray x = variable({1, 2});
  Values seen;
  NDArray h, y;
  const autograd::RecordScope record;
  h = x * 3.0f;
  y = h * h + h;  // two paths: the gradient is whole when the hook sees it
  const auto doubled = autograd::add_hook(h, [&](const NDArray& g) {
    seen = g.to_vector<float>();
    return g * 2.0f;
  });
  autograd::add_hook(h, [&](const NDArray& g) {
    CHECK(g.to_vector<float>() == Values{14, 26});  // after the first
    return NDArray();
  });
  int of_variable = 0;
  autograd::add_hook(x, [&](const NDArray& g) { return ++of_variable, g + 1.0f; });
  y.backward({}, {.retain_graph = true});
  CHECK(seen == Values{7, 13});
  CHECK(x.grad().to_vector<float>() == Values{43, 79});
  CHECK(
      autograd::grad(std::vector{y}, std::vector{h}, {}, {.retain_graph = true})[0].to_vector<float>() ==
      Values{14, 26});
  CHECK(
      autograd::grad(std::vector{y}, std::vector{x}, {}, {.retain_graph = true})[0].to_vector<float>() ==
      Values{43, 79});
  CHECK(of_variable == 2);
  int beside = 0;
  const NDArray z = variable({5}) * 2.0f;  // leads to nothing that is asked for
  autograd::add_hook(z, [&](const NDArray&) { return ++beside, NDArray(); });
  autograd::grad(std::vector{y, z}, std::vector{x}, {}, {.retain_graph = true});
  CHECK((beside == 0 && of_variable == 3));
  CHECK(autograd::remove_hook(h, doubled));
  CHECK(!autograd::remove_hook(h, doubled));
  CHECK(!autograd::remove_hook(y, doubled));
}

TEST_CASE("Faults of hooks are typed errors, and gradients of gradients pass them", "[autograd][hook]") {
  const NDArray x = variable({1, 2});
  const autograd::RecordScope record;
  const NDArray h = x * x;
  CHECK_THROWS_AS(autograd::add_hook(array(Values{1}, {1}), [](const NDArray& g) { return g; }), AutogradError);
  CHECK_THROWS_AS(autograd::add_hook(h, {}), ValueError);
  CHECK_THROWS_AS(autograd::add_hook(NDArray(), [](const NDArray& g) { return g; }), ValueError);
  const auto wrong = autograd::add_hook(h, [](const NDArray& g) { return g.slice(0, 0, 1); });
  CHECK_THROWS_WITH(exp(h).backward(), sluice::test::contains("a hook of \"multiply\""));
  CHECK(autograd::remove_hook(h, wrong));
  autograd::add_hook(h, [](const NDArray& g) { return g * g; });
  const NDArray y = h * 3.0f;
  const NDArray first = autograd::grad(std::vector{y}, std::vector{x}, {}, {.create_graph = true})[0];
  CHECK(first.to_vector<float>() == Values{18, 36});  // 9 * 2 x
  CHECK(autograd::grad(std::vector{first}, std::vector{x})[0].to_vector<float>() == Values{18, 18});
}

TEST_CASE("The search for NaN names the first operation that gives one", "[autograd][nan]") {
  const NDArray x = variable({0, 4});
  const autograd::RecordScope record;
  const NDArray root = sqrt(x);
  const int line = __LINE__ - 1;
  const NDArray y = root * 0.0f;
  CHECK_THROWS_WITH(
      y.backward({}, {.find_nan = true}),
      sluice::test::contains("the gradient of \"sqrt\"") && sluice::test::contains(":" + std::to_string(line)) &&
          sluice::test::contains("towards its input 0 has NaN"));
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_THROWS_WITH(
      exp(x).backward(array(Values{1, nan}, {2}), {.find_nan = true}),
      sluice::test::contains("a head gradient has NaN"));
  exp(x).backward({}, {.find_nan = true});  // infinities and numbers are none
  CHECK(x.grad().to_vector<float>()[0] == 1);
}

TEST_CASE("A segment's own variables, writes and engine are those of a program without it", "[autograd][checkpoint]") {
  // A variable that the segment makes in its first run, as layers do whose shapes come with a call.
  NDArray w;
  const auto made_inside = [&](const NDArray& in) {
    if (!w.defined()) {
      w = array(Values{4, 5}, {2});
      w.attach_grad();
    }
    return in * w;
  };
  const NDArray x = variable({1, 2});
  {
    const autograd::RecordScope record;
    autograd::checkpoint(made_inside, x).backward();
    CHECK(w.grad().to_vector<float>() == Values{1, 2});
    CHECK(x.grad().to_vector<float>() == Values{4, 5});
    // What it writes over its input is seen, not taken for the input.
    const NDArray wrote = autograd::checkpoint(
        [](const NDArray& in) {
          in.detach().assign(in.detach() + 1.0f);
          return in * in;
        },
        x);
    CHECK_THROWS_WITH(wrote.backward(), sluice::test::contains("was written after forward"));
  }
  // Arrays of an engine that is not the current one draw their own engine's numbers.
  Engine other({.workers = 1, .seed = 9});
  const auto gradient = [&](bool again) {
    NDArray v;
    {
      const EngineScope scope(other);
      v = ones({64});
      v.attach_grad();
      other.seed(7);
    }
    const auto segment = [](const NDArray& in) { return dropout(in, 0.5) * in; };
    const autograd::RecordScope record;
    (again ? autograd::checkpoint(segment, v) : segment(v)).backward();
    return v.grad().to_vector<float>();
  };
  CHECK(gradient(true) == gradient(false));
}

TEST_CASE("Products leave the tape of what their function reads as it is", "[autograd][products]") {
  const NDArray w = variable({1, 2}), x = array(Values{3, 4}, {2});
  NDArray h, loss;
  {
    const autograd::RecordScope record;
    h = w * w;
    loss = sum(h * h);
  }
  const auto f = [&](const NDArray& in) { return in * h; };
  CHECK(autograd::vjp(f, x, x).second.to_vector<float>() == Values{3, 16});
  CHECK(autograd::jvp(f, x, x).second.to_vector<float>() == Values{3, 16});
  CHECK(autograd::jacobian(f, x).to_vector<float>() == Values{1, 0, 0, 4});
  loss.backward();
  CHECK(w.grad().to_vector<float>() == Values{4, 32});
}

TEST_CASE("The search for NaN sees sums, hooks and segments that run again", "[autograd][nan]") {
  const float inf = std::numeric_limits<float>::infinity();
  const NDArray x = variable({1, 4});
  const autograd::RecordScope record;
  const NDArray sum_of_two = x * inf + x * -inf;
  CHECK_THROWS_WITH(
      sum_of_two.backward({}, {.find_nan = true}),
      sluice::test::contains("the whole gradient of result 0 of \"variable\""));
  const NDArray y = x * 2.0f;
  autograd::add_hook(y, [=](const NDArray& g) { return g * inf * 0.0f; });
  CHECK_THROWS_WITH(
      exp(y).backward({}, {.find_nan = true}), sluice::test::contains("the whole gradient of result 0 of \"multiply"));
  const NDArray zero = variable({0, 4});
  const NDArray segment = autograd::checkpoint([](const NDArray& in) { return sqrt(in) * 0.0f; }, zero);
  CHECK_THROWS_WITH(segment.backward({}, {.find_nan = true}), sluice::test::contains("the gradient of \"sqrt\""));
}
