// Calls by name: the rules of promotion and of axes are the operators', not those of the C++ functions before them.
#include <initializer_list>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/by_name.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/sinks.h"

using namespace sluice;
using namespace sluice::test;

TEST_CASE("Operators promote their operands themselves", "[normalise]") {
  const NDArray whole = array<std::int32_t>({1, 2, 3}), real = array<float>({0.5f, 2, -1}),
                wide = ones({3}, {.dtype = float64});
  const NDArray flags = array<std::uint8_t>({1, 0, 1}).astype(bool_);
  CHECK(difference(call("add", {whole, real}), whole + real) == "");
  CHECK(difference(call("multiply", {real, wide}), real * wide) == "");
  CHECK(difference(call("equal", {whole, real}), equal(whole, real)) == "");
  CHECK(difference(call("add", {flags, flags}), flags + flags) == "");
  CHECK(difference(call("add", {whole}, "number=0.5"), whole + 0.5) == "");
  CHECK(difference(call("exp", {whole}), exp(whole)) == "");
  CHECK(difference(call("where", {whole, whole, real}), where(whole, whole, real)) == "");
  CHECK(difference(call("where", {flags, whole}, "number=2.5"), where(flags, whole, 2.5)) == "");
  CHECK(difference(call("clip", {whole}, "low=1.5, high=2.5"), clip(whole, 1.5, 2.5)) == "");
  CHECK(difference(call("concat", {whole, real}), concat({whole, real})) == "");
}

TEST_CASE("Operators count axes from the back, and refuse those that are not there", "[normalise]") {
  const NDArray x = random_array({2, 3, 4}, 1), labels = array<std::int32_t>({1, 0, 3, 2, 0, 1}, {2, 3});
  CHECK(difference(call("sum", {x}, "axes=(-1,)"), sum(x, {2})) == "");
  CHECK(difference(call("max", {x}, "axes=(-1, 0), keepdims=true"), max(x, {0, 2}, true)) == "");
  CHECK(difference(call("prod", {x}, "axes=()"), prod(x)) == "");
  CHECK(difference(call("argmax", {x}, "axes=(-2,)"), argmax(x, 1)) == "");
  CHECK(difference(call("softmax", {x}, "axis=-1"), softmax(x, 2)) == "");
  CHECK(difference(call("log_softmax", {x}, "axis=-3"), log_softmax(x, 0)) == "");
  CHECK(difference(call("concat", {x, x}, "axis=-1"), concat({x, x}, 2)) == "");
  CHECK(difference(call("take", {x, labels}, "axis=-1"), take(x, labels, 2)) == "");
  CHECK(difference(call("pick", {x, labels}, "axis=-1"), pick(x, labels, 2)) == "");
  CHECK(difference(call("softmax_cross_entropy", {x, labels}, "axis=-1"), softmax_cross_entropy(x, labels, 2)) == "");
  CHECK(difference(call("transpose", {x}, "shape=(-1, 0, 1)"), x.transpose({2, 0, 1})) == "");
  CHECK(difference(call("slice", {x}, "axis=-1, begin=-3, end=100, step=2"), x.slice(2, 1, 4, 2)) == "");
  CHECK(difference(call("expand_dims", {x}, "axis=-1"), x.expand_dims(3)) == "");
  CHECK(difference(call("reshape", {x}, "shape=(-1, 6)"), x.reshape({4, 6})) == "");

  CHECK_THROWS_AS(call("softmax", {x}, "axis=3"), IndexError);
  CHECK_THROWS_AS(call("sum", {x}, "axes=(0, -3)"), ValueError);
  CHECK_THROWS_AS(call("take", {x, labels}, "axis=-4"), IndexError);
  CHECK_THROWS_AS(call("transpose", {x}, "shape=(0, 1, 3)"), IndexError);
  CHECK_THROWS_AS(call("squeeze", {x}, "axis=0"), ShapeError);
  CHECK_THROWS_AS(call("slice", {x}, "step=0"), ValueError);
}

TEST_CASE("What only functions refused before is refused of every call", "[normalise]") {
  const NDArray x = ones({2, 3}), floats = ones({2});
  CHECK_THROWS_AS(call("take", {x, floats}), DTypeError);
  CHECK_THROWS_AS(call("pick", {x, floats}, "axis=1"), DTypeError);
  CHECK_THROWS_AS(call("one_hot", {floats}, "depth=3"), DTypeError);
  CHECK_THROWS_AS(call("one_hot", {floats.astype(int32)}, "depth=0"), ValueError);
  CHECK_THROWS_AS(call("softmax_cross_entropy", {x, floats}, "axis=1"), DTypeError);
  CHECK_THROWS_AS(call("softmax_cross_entropy", {x, zeros({3}, {.dtype = int32})}, "axis=1"), ShapeError);
  CHECK_THROWS_AS(call("softmax", {x.astype(int32)}, "axis=1"), DTypeError);
  CHECK_THROWS_AS(call("clip", {x}, "low=2, high=1"), ValueError);
  CHECK_THROWS_AS(call("concat", std::initializer_list<NDArray>()), ValueError);
}

TEST_CASE("Quantiles, histograms, masks of the largest and parts are operators by name", "[normalise]") {
  const NDArray whole = array<std::int32_t>({3, 1, 4, 1, 5, 9}, {2, 3}), real = random_array({2, 6}, 1);
  CHECK(difference(call("quantile", {whole}, "q=0.25, axes=(-1,)"), quantile(whole, 0.25, 1)) == "");
  CHECK(difference(call("quantile", {real}, "q=0.7, keepdims=true"), quantile(real, 0.7, {}, true)) == "");
  CHECK(difference(call("quantile", {real}), median(real)) == "");
  CHECK_THROWS_AS(call("quantile", {real}, "axes=(2,)"), IndexError);
  CHECK_THROWS_AS(call("quantile", {real}, "q=1.01"), ValueError);
  CHECK_THROWS_AS(call("quantile", {zeros({0, 2})}, "axis=0"), ValueError);

  const Arrays counted = call_all("histogram", {whole}, "bins=4, low=0, high=8");
  CHECK(difference(counted[0], histogram(whole, 4, 0, 8).counts) == "");
  CHECK(difference(counted[1], histogram(whole, 4, 0, 8).edges) == "");
  CHECK_THROWS_AS(call("histogram", {whole}, "bins=0"), ValueError);
  CHECK_THROWS_AS(call("histogram", {whole}, "low=1, high=1"), ValueError);
  CHECK_THROWS_AS(call("histogram", {whole}, "low=0, high=inf"), ValueError);

  CHECK(difference(call("topk_mask", {whole}, "k=2, axis=-1"), topk_mask(whole, 2, 1)) == "");
  CHECK_THROWS_WITH(call("topk_mask", {whole}, "k=4"), contains("topk_mask") && contains("4"));
  CHECK_THROWS_AS(call("topk_mask", {whole}, "k=1, axis=-3"), IndexError);

  const auto parts = split(real, 3, -1), at = split(real, std::vector<std::int64_t>{1, 4, -1}, 1);
  const Arrays equal = call_all("split", {real}, "axis=-1, parts=3"),
               uneven = call_all("split", {real}, "axis=-1, indices=(1, 4, -1)");
  REQUIRE(equal.size() == parts.size());
  REQUIRE(uneven.size() == at.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    CHECK(difference(equal[i], parts[i]) == "");
  for (std::size_t i = 0; i < at.size(); ++i)
    CHECK(difference(uneven[i], at[i]) == "");
  CHECK_THROWS_AS(call("split", {real}, "parts=5, axis=1"), ValueError);
  CHECK_THROWS_AS(call("split", {real}, "parts=0"), ValueError);
  CHECK_THROWS_AS(call("split", {real}, "parts=2, indices=(1,)"), ValueError);
  CHECK_THROWS_AS(call("split", {real}, "parts=2, axis=2"), IndexError);
  CHECK(call_all("split", {zeros({0, 2})}, "parts=3").size() == 3);
  CHECK_THROWS_AS(call("split", {zeros({0, 2})}, "parts=1000000000000000000"), ValueError);
}

TEST_CASE("Entries that are named take, by name too, what is broadcast beside them", "[normalise]") {
  const NDArray x = random_array({3, 4}, 1), row = array<std::int32_t>({2, 0}, {1, 2}), value = array<double>({7}),
                at = array<std::int32_t>({1, 1, 2}), tuples = array<std::int64_t>({0, 2, 1, 3}, {2, 2});
  CHECK(difference(call("take_along_axis", {x, row}, "axis=-1"), take_along_axis(x, row, 1)) == "");
  CHECK(difference(call("put_along_axis", {x, row, value}, "axis=-1"), put_along_axis(x, row, value, 1)) == "");
  CHECK(difference(call("add_along_axis", {x, row, value}, "axis=1"), add_along_axis(x, row, value, 1)) == "");
  CHECK(difference(call("index_update", {x, at, value}, "axis=-1"), index_update(x, {at}, value, 1)) == "");
  CHECK(difference(call("index_add", {x, at, value}), index_add(x, {at}, value)) == "");
  const NDArray rows = tuples.slice(0, 0, 1).reshape({2}), columns = tuples.slice(0, 1, 2).reshape({2});
  CHECK(difference(call("index_update_nd", {x, tuples, value}), index_update(x, {rows, columns}, value)) == "");
  CHECK_THROWS_AS(call("index_update", {x, at, ones({2})}), ShapeError);
  CHECK_THROWS_AS(call("take_along_axis", {x, zeros({2, 2}, {.dtype = int32})}, "axis=1"), ShapeError);
}

TEST_CASE("What is put together of other operators is called by its name", "[normalise]") {
  const NDArray x = random_array({3, 4}, 1), whole = array<std::int32_t>({3, 1, 4, 1, 5, 9}, {2, 3}),
                at = array<std::int32_t>({1, -1, 7}), values = array<double>({5, 6, 7}),
                rows = array<std::uint8_t>({1, 0, 1}).astype(bool_);
  CHECK(difference(call("stack", {x, x.astype(float64)}, "axis=-1"), stack({x, x.astype(float64)}, 2)) == "");
  CHECK(difference(call("stack", {whole, whole}), stack({whole, whole})) == "");
  CHECK_THROWS_AS(call("stack", std::initializer_list<NDArray>()), ValueError);
  CHECK_THROWS_AS(call("stack", {x, x}, "axis=3"), IndexError);
  CHECK_THROWS_WITH(call("stack", {x, whole}), contains("stack") && contains("(2, 3)"));

  CHECK(difference(call("put", {x, at, values}), put(x, at, values)) == "");
  CHECK(difference(call("put", {whole, at, values}, "mode=2"), put(whole, at, values, IndexMode::wrap)) == "");
  CHECK_THROWS_WITH(call("put", {x, at, values}, "mode=3"), contains("put: mode 3"));
  CHECK_THROWS_AS(call("put", {x, values, values}), DTypeError);
  CHECK_THROWS_WITH(call("put", {x, at, ones({2})}), contains("put") && contains("(2,)"));

  CHECK(difference(call("masked_fill", {x, rows}, "value=2.5"), masked_fill(x, rows, 2.5)) == "");
  CHECK(difference(call("masked_fill", {x, rows}), masked_fill(x, rows, 0)) == "");
  CHECK(difference(call("masked_fill", {x, rows, ones({4})}), masked_fill(x, rows, ones({4}))) == "");
  const NDArray some = array<std::uint8_t>({1, 0}).astype(bool_);
  CHECK(
      call("masked_fill", {whole, some}, "value=7").to_vector<std::int32_t>() ==
      std::vector<std::int32_t>{7, 7, 7, 1, 5, 9});
  CHECK_THROWS_AS(call("masked_fill", {x}), ValueError);
  CHECK_THROWS_AS(call("masked_fill", {x, x}), DTypeError);
  CHECK_THROWS_WITH(
      call("masked_fill", {whole.astype(int8), some}, "value=300"), contains("masked_fill") && contains("300"));

  const NDArray wide = random_array({2, 3, 8}, 2);
  CHECK(difference(call("split_heads", {wide}, "heads=4"), split_heads(wide, 4)) == "");
  CHECK(difference(call("join_heads", {split_heads(wide, 4)}), wide) == "");
  CHECK_THROWS_AS(call("split_heads", {wide}, "heads=3"), ShapeError);
}

TEST_CASE("Draws by name take the parameters that functions take", "[normalise]") {
  const NDArray halves = array<float>({0.5f, 2}).astype(float16);
  const auto drawn = [](const auto& f) {
    random::seed(3);
    return f();
  };
  const auto alike = [&](const char* name, const NDArray& in, const char* attributes, const auto& f) {
    return difference(drawn([&] { return call(name, {in}, attributes); }), drawn([&] { return f(in); }));
  };
  CHECK(alike("sample_gamma", halves, "", [](const NDArray& in) { return random::gamma(in); }) == "");
  CHECK(alike("sample_poisson", halves, "dtype=int32", [](const NDArray& in) {
          return random::poisson(in, int32);
        }) == "");
  CHECK(alike("sample_categorical", halves, "draws=5", [](const NDArray& in) {
          return random::categorical(in, 5);
        }) == "");
  CHECK_THROWS_AS(call("sample_gamma", {halves.astype(int32)}), DTypeError);
  // 0.1 lies between two halves: what is drawn may not lie outside.
  const NDArray inside = call("random_truncated_normal", {}, "shape=(4000,), dtype=float16, third=0.1, fourth=0.101");
  CHECK(min(inside.astype(float64)).item<double>() >= 0.1);
  CHECK_THROWS_AS(
      call("random_truncated_normal", {}, "shape=(1,), dtype=float16, third=0.10001, fourth=0.10002"), ValueError);
}

TEST_CASE("A batch norm by name refuses the numbers that the function refuses", "[normalise]") {
  const NDArray x = ones({2, 3}), one = ones({3});
  for (const char* op : {"batch_norm", "batch_norm_predict"}) {
    CHECK_THROWS_AS(call(op, {x, one, one, one, one}, "eps=0"), ValueError);
    CHECK_THROWS_AS(call(op, {x, one, one, one, one}, "momentum=2"), ValueError);
    CHECK(call(op, {x, one, one, one, one}, "axis=-1").shape() == Shape{2, 3});
  }
}

TEST_CASE("A split gives what it is inferred to give, whatever the places", "[normalise]") {
  const Operator& op = *find_operator("split");
  for (const char* attributes : {"parts=2", "indices=(1, 3, 2, -1, 9, -9)", "indices=(-2,)", ""}) {
    const Specs specs = infer(op, std::vector<ArraySpec>{{{4, 2}, int32, cpu()}}, parse_attributes(op, attributes));
    const Arrays made = call_all("split", {zeros({4, 2}, {.dtype = int32})}, attributes);
    REQUIRE(made.size() == specs.size());
    for (std::size_t i = 0; i < made.size(); ++i) {
      CAPTURE(attributes, i);
      CHECK(made[i].shape() == specs[i].shape);
      CHECK(made[i].dtype() == specs[i].dtype);
    }
  }
}

TEST_CASE("Calls by name with more or fewer inputs than weight and bias are refused", "[normalise]") {
  const NDArray x = ones({2, 3});
  for (const char* name : {"dense", "dense_relu", "convolution"}) {
    CAPTURE(name);
    CHECK_THROWS_AS(call(name, std::initializer_list<NDArray>()), ValueError);
    CHECK_THROWS_AS(call(name, {x}), ValueError);
    CHECK_THROWS_AS(call(name, {x, x, x, x}), ValueError);
  }
}

TEST_CASE("A sink sees the casts of a promotion, and gradients go back through them", "[normalise]") {
  const NDArray whole = array<std::int32_t>({1, 2, 3});
  AbstractSink sink;
  {
    const CallSinkScope taken(&sink);
    whole + abstract_array({{3}, float32, cpu()});
  }
  REQUIRE(sink.calls.size() == 2);
  CHECK_THAT(sink.calls[0], Catch::Matchers::StartsWith("astype (int32 (3,)"));
  CHECK_THAT(sink.calls[1], Catch::Matchers::StartsWith("add (float32 (3,)"));

  NDArray x = array<float>({1, 2, 3}), wide = ones({3}, {.dtype = float64});
  x.attach_grad();
  {
    const autograd::RecordScope record;
    call("multiply", {x, wide}).backward();
  }
  CHECK(x.grad().dtype() == float32);
  CHECK(x.grad().to_vector<float>() == std::vector<float>{1, 1, 1});
}

TEST_CASE("Gradients of rows, called by name, refuse what does not fit together", "[normalise]") {
  const NDArray x = ones({2, 3}), wide = ones({2, 3}, {.dtype = float64}), row = ones({3}), more = ones({4, 2, 3});
  CHECK(call("tanh_backward", {x, x, x}).shape() == Shape{2, 3});
  CHECK(call("multiply_backward_a", {x, row, row, x}).shape() == Shape{2, 3});
  CHECK_THROWS_AS(call("tanh_backward", {wide, x, x}), DTypeError);
  CHECK_THROWS_AS(call("multiply_backward_a", {wide, x, x, x}), DTypeError);
  CHECK_THROWS_AS(call("tanh_backward", {row, row, more}), ShapeError);
  CHECK_THROWS_AS(call("multiply_backward_b", {x, x, more, x}), ShapeError);
  const NDArray whole = ones({2, 3}, {.dtype = int32});
  CHECK_THROWS_AS(call("relu_backward", {whole, whole, whole}), DTypeError);
  for (const Operator* op : operators())
    CHECK(std::string(op->name).find("_gradient") == std::string::npos);
}
