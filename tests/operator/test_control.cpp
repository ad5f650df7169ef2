// foreach, while_loop and cond as they are called: loops and branches of C++ on arrays.
#include "tests/engine/expect.h"
#include "tests/operator/control_cases.h"

using namespace sluice;
using namespace sluice::test;

namespace {

std::vector<float> floats(const NDArray& array) {
  return array.to_vector<float>();
}

LoopResult sum_so_far(const Arrays& data, const Arrays& states) {
  const NDArray sum = data[0] + states[0];
  return {{sum * 2}, {sum}};
}

Arrays as_it_is(const Arrays& inputs) {
  return inputs;
}

void has(const std::string& found, const std::string& part) {
  INFO(found);
  CHECK(found.find(part) != std::string::npos);
}

NDArray below(const NDArray& x, double limit) {
  return x < limit;
}

}  // namespace

TEST_CASE("foreach stacks what its body gives and hands the states on", "[control]") {
  const NDArray data = array({1.f, 2.f, 3.f, 4.f, 5.f, 6.f}, {3, 2});
  const LoopResult result = foreach(sum_so_far, {data}, {zeros({2})});
  REQUIRE(result.outputs.size() == 1);
  CHECK(result.outputs[0].shape() == Shape{3, 2});
  CHECK(floats(result.outputs[0]) == std::vector<float>{2, 4, 8, 12, 18, 24});
  CHECK(floats(result.states[0]) == std::vector<float>{9, 12});

  // Strided, backwards and stretched data, several arrays, no states, no outputs.
  const NDArray backwards = data.slice(0, -1, INT64_MIN, -1), stretched = array({10.f, 20.f}).broadcast_to({3, 2});
  const LoopResult two = foreach(
      [](const Arrays& in, const Arrays&) -> LoopResult {
        return {{in[0] + in[1], in[1]}, {}};
      },
      {backwards, stretched},
      {});
  CHECK(floats(two.outputs[0]) == std::vector<float>{15, 26, 13, 24, 11, 22});
  CHECK(floats(two.outputs[1]) == std::vector<float>{10, 20, 10, 20, 10, 20});
  const LoopResult none = foreach(
      [](const Arrays& in, const Arrays& s) -> LoopResult {
        return {{}, {s[0] * in[0]}};
      },
      {data},
      {full({2}, 1.f)});
  CHECK(none.outputs.empty());
  CHECK(floats(none.states[0]) == std::vector<float>{15, 48});
}

TEST_CASE(
    "Loops without turns give what they were given, and zeros of the shapes that a turn would give", "[control]") {
  const NDArray state = array({1.f, 2.f});
  const LoopResult empty = foreach(
      [](const Arrays& in, const Arrays& s) -> LoopResult {
        return {{in[0].reshape({2, 2}).astype(int32)}, {s[0] + 1}};
      },
      {zeros({0, 4})},
      {state});
  CHECK(empty.outputs[0].shape() == Shape{0, 2, 2});
  CHECK(empty.outputs[0].dtype() == int32);
  CHECK(empty.states[0].same(state));
  const LoopResult never = while_loop(
      [](const Arrays& v) { return below(v[1], 0); },
      [](const Arrays& v) -> LoopResult {
        return {{v[0].expand_dims(0)}, {v[0] + 1, v[1]}};
      },
      {state, full({}, 1.f)},
      3);
  CHECK(never.outputs[0].shape() == Shape{3, 1, 2});
  CHECK(floats(never.outputs[0]) == std::vector<float>(6, 0));
  CHECK(never.states[0].same(state));
}

TEST_CASE(
    "while_loop stops where its condition says, or after so many turns; the rest of the outputs is zeros",
    "[control]") {
  const auto run = [](double limit, std::int64_t most) {
    return while_loop(
        [=](const Arrays& v) { return below(v[0], limit); },
        [](const Arrays& v) -> LoopResult {
          return {{v[0] * 10}, {v[0] + 1}};
        },
        {full({1}, 1.f)},
        most);
  };
  CHECK(floats(run(3.5, 5).outputs[0]) == std::vector<float>{10, 20, 30, 0, 0});
  CHECK(floats(run(3.5, 5).states[0]) == std::vector<float>{4});
  CHECK(floats(run(5.5, 5).outputs[0]) == std::vector<float>{10, 20, 30, 40, 50});
  CHECK(floats(run(100, 5).states[0]) == std::vector<float>{6});
  CHECK(run(100, 0).outputs[0].shape() == Shape{0, 1});
  CHECK(floats(run(100, 0).states[0]) == std::vector<float>{1});
}

TEST_CASE("A predicate is one element of any type", "[control]") {
  const auto chosen = [](const NDArray& predicate) {
    return cond(
               predicate,
               [](const Arrays&) { return Arrays{full({}, 1.f)}; },
               [](const Arrays&) { return Arrays{full({}, 2.f)}; })[0]
        .item<float>();
  };
  for (const DType dtype :
       {bool_, uint8, int8, int32, int64, float16, bfloat16, float32, float64, int16, uint16, uint32, uint64}) {
    CAPTURE(name_of(dtype));
    CHECK(chosen(full({}, 1, {.dtype = dtype})) == 1);
    CHECK(chosen(full({1, 1}, 0, {.dtype = dtype})) == 2);
  }
  CHECK(chosen(full({}, 0.25f)) == 1);
  CHECK(chosen(full({}, -0.0f)) == 2);
  CHECK(chosen(full({}, NAN)) == 1);
  CHECK(chosen(full({}, 1e-40f)) == 1);
  CHECK(chosen(array({std::int64_t{1} << 40})) == 1);
  CHECK_THROWS_AS(chosen(zeros({2})), ShapeError);
  CHECK_THROWS_AS(chosen(zeros({0})), ShapeError);
  CHECK_THROWS_AS(chosen({}), ValueError);
}

TEST_CASE("Gradients of loops and branches are those of the calls that they are", "[control]") {
  const NDArray x = numbers_of(1, {3, 4}), w = numbers_of(2, {4});
  const Program looped = [](const Arrays& in) {
    const LoopResult r = foreach(
        [&](const Arrays& d, const Arrays& s) -> LoopResult {
          const NDArray h = tanh(d[0] * in[1] + s[0]);
          return {{h}, {h}};
        },
        {in[0]},
        {zeros({4})});
    return Arrays{r.outputs[0], r.states[0]};
  };
  const Program by_hand = [](const Arrays& in) {
    NDArray h = zeros({4});
    std::vector<NDArray> rows;
    for (int i = 0; i < 3; ++i)
      rows.push_back(h = tanh(in[0][i] * in[1] + h));
    return Arrays{stack(rows), h};
  };
  CHECK(all_bytes(with_gradients(looped, {x, w})) == all_bytes(with_gradients(by_hand, {x, w})));

  const Program root = [](const Arrays& in) {  // Newton, to whatever precision
    const LoopResult r = while_loop(
        [&](const Arrays& v) { return max(abs(v[0] * v[0] - in[0])) > 1e-5; },
        [&](const Arrays& v) -> LoopResult {
          return {{}, {(v[0] + in[0] / v[0]) / 2}};
        },
        {in[0]},
        50);
    return Arrays{r.states[0]};
  };
  const NDArray four = full({1}, 4.f);
  const Arrays found = with_gradients(root, {four});
  CHECK(found[0].item<float>() == Approx(2));
  CHECK(found[1].item<float>() == Approx(0.25));

  const auto branch = [](float sign) {
    return with_gradients(
        [=](const Arrays& in) {
          return cond(
              full({}, sign) > 0,
              [](const Arrays& a) { return Arrays{a[0] * a[0]}; },
              [](const Arrays& a) { return Arrays{a[0] * 3}; },
              in);
        },
        {full({1}, 5.f)});
  };
  CHECK(branch(1)[1].item<float>() == 10);
  CHECK(branch(-1)[1].item<float>() == 3);
}

TEST_CASE("Bodies that give something else from turn to turn are refused by name and number", "[control]") {
  const NDArray data = zeros({3, 2});
  const auto text = [&](const auto& body) {
    int turn = 0;
    return text_of_error([&] {
      foreach([&](const Arrays&, const Arrays& s) -> LoopResult { return body(s, turn++); }, {data}, {zeros({2})});
    });
  };
  has(text([](const Arrays& s, int turn) -> LoopResult {
        return {{zeros({turn < 2 ? 1 : 5})}, s};
      }),
      "foreach: output 0 of turn 2 has shape (5,), not (1,)");
  has(text([](const Arrays& s, int turn) -> LoopResult {
        return {{zeros({}, {.dtype = turn > 0 ? int32 : int8})}, s};
      }),
      "foreach: output 0 of turn 1 is int32, not int8");
  has(text([](const Arrays& s, int turn) -> LoopResult {
        return {Arrays(turn == 1 ? 2 : 1, zeros({})), s};
      }),
      "foreach: the body gave 2 outputs at turn 1, 1 before");
  has(text([](const Arrays&, int) -> LoopResult { return {{}, {}}; }), "1 states and gave 0 at turn 0");
  has(text([](const Arrays& s, int) -> LoopResult {
        return {{}, {s[0].reshape({1, 2})}};
      }),
      "foreach: state 0 of turn 0 has shape (1, 2), not (2,)");
  has(text([](const Arrays& s, int) -> LoopResult { return {{NDArray()}, s}; }), "foreach: output 0 is an undefined");
}

TEST_CASE("Loops that cannot begin are refused", "[control]") {
  const NDArray data = zeros({3, 2});
  has(text_of_error([&] { foreach(sum_so_far, {}, {}); }), "no data");
  has(text_of_error([&] { foreach(sum_so_far, {zeros({})}, {}); }), "without axes");
  has(text_of_error([&] { foreach(sum_so_far, {data, zeros({4, 2})}, {}); }), "(3, 2) and (4, 2)");
  has(text_of_error([&] { foreach(sum_so_far, {data}, {NDArray()}); }), "state 0 is an undefined");
  const auto loop = [&](const Arrays& vars, std::int64_t most) {
    return text_of_error([&] {
      while_loop(
          [](const Arrays& v) { return v[0]; },
          [](const Arrays& v) -> LoopResult {
            return {{}, v};
          },
          vars,
          most);
    });
  };
  has(loop({}, 3), "no loop_vars");
  has(loop({full({}, 1.f)}, -1), "max_iterations of -1");
  has(loop({zeros({2})}, 3), "while_loop: the predicate has shape (2,)");
}

TEST_CASE("An error in the middle of a loop leaves a second error, and everything behind it, in order", "[control]") {
  const NDArray data = numbers_of(3, {4, 2});
  int calls = 0;
  const auto failing = [&](const Arrays& in, const Arrays& s) -> LoopResult {
    if (++calls == 3)
      return {{matmul(in[0].reshape({1, 2}), zeros({3, 1}))}, s};
    return {{in[0].reshape({1, 2})}, {s[0] + in[0]}};
  };
  expect_error<ShapeError>(
      [&] { foreach(failing, {data}, {zeros({2})}); },
      [&](const ShapeError& first) {
        CHECK(std::string(first.what()).find("matmul") != std::string::npos);
        calls = 2;
        expect_error<ShapeError>([&] { foreach(failing, {data}, {zeros({2})}); }, [](const ShapeError&) {});
        calls = 10;
        CHECK(all_bytes(foreach(failing, {data}, {zeros({2})}).outputs) == all_bytes({data.reshape({4, 1, 2})}));
      });
  // Of work that fails later: where its value decides.
  const NDArray table = zeros({3}), outside = array({7}, {1});
  const auto decide = [&] { return cond(take(table, outside), as_it_is, as_it_is, {data}); };
  CHECK_THROWS_AS(decide(), IndexError);
  CHECK(all_bytes(cond(take(table, array({1}, {1})), as_it_is, as_it_is, {data})) == all_bytes({data}));
}
