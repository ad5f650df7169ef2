// Every operator called by name with inputs and attributes that nobody would write: it runs or throws an Error.
#include <array>
#include <cstdint>
#include <exception>
#include <iterator>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;

namespace {

class AnyCall {
 public:
  AnyCall(const Operator& op, std::uint32_t seed) : op_(op), random_(seed) {}

  /// What was thrown that is no Error; empty if nothing was.
  std::string run() {
    const std::vector<NDArray> inputs = any_inputs();
    const Attributes attributes = any_attributes();
    try {
      std::optional<autograd::RecordScope> record;
      if (below(2) == 0)
        record.emplace();
      for (const NDArray& result : invoke(op_, inputs, attributes, SourceLocation::current())) {
        result.wait_to_read();
        if (record && is_floating(result.dtype()) && autograd::on_tape(result)) {
          result.backward();
          break;
        }
      }
    } catch (const Error&) {
    } catch (const std::exception& error) {
      return message(op_.name, ": ", error.what());
    }
    try {
      Engine::current().wait_all();
    } catch (const Error&) {
    }
    return {};
  }

 private:
  std::uint32_t below(std::uint32_t n) { return random_() % n; }

  Shape any_shape() {
    Shape shape;
    for (std::uint32_t axes = below(5); axes > 0; --axes)
      shape.push_back(below(7) == 0 ? 0 : 1 + below(4));
    return shape;
  }

  NDArray any_array(Shape shape) {
    static constexpr DType k_types[] = {
        float64, int32, int64, bool_, float16, bfloat16, uint8, int8, int16, uint16, uint32, uint64};
    const DType dtype = below(3) != 0 ? float32 : k_types[below(static_cast<std::uint32_t>(std::size(k_types)))];
    if (below(10) == 0)
      return abstract_array({shape, dtype, cpu()});
    const NDArray array = full(shape, 1, {.dtype = dtype});
    if (below(8) == 0)
      return array.transpose();
    if (below(8) != 0)
      return array;
    for (int axis = 0; axis < shape.ndim(); ++axis)
      shape[axis] = shape[axis] == 1 ? 3 : shape[axis];
    return array.broadcast_to(shape);
  }

  std::vector<NDArray> any_inputs() {
    const bool as_many = op_.inputs >= 0 && below(6) != 0;
    const auto count = as_many ? static_cast<std::uint32_t>(op_.inputs) : below(6);
    const Shape shape = any_shape();
    std::vector<NDArray> inputs;
    for (std::uint32_t i = 0; i < count; ++i) {
      inputs.push_back(any_array(below(3) != 0 ? shape : any_shape()));
      if (inputs.back().dtype() == float32 && below(2) == 0)
        inputs.back().attach_grad();
    }
    return inputs;
  }

  // Each named value that some text fits gets one.
  Attributes any_attributes() {
    static constexpr std::array k_texts = {
        "-1",
        "0",
        "1",
        "2",
        "-3",
        "5",
        "(1,)",
        "(0, 1)",
        "(2, 2)",
        "(-1,)",
        "()",
        "true",
        "1.5",
        "(0, 0)",
        "1000000000000000000",
        "9223372036854775807",
        "-9223372036854775808",
        "nan",
        "inf",
        "-0.5",
        "7",
        "bool",
        "uint8",
        "uint32",
        "int64",
        "float16",
        "float64",
        "(-4,)"};
    std::string text;
    for (const NamedValue& value : parse_attributes(op_, "").values()) {
      if (below(2) == 0)
        continue;
      const std::string more = message(text, text.empty() ? "" : ", ", value.name, "=", k_texts[below(k_texts.size())]);
      try {
        parse_attributes(op_, more);
        text = more;
      } catch (const ValueError&) {
      }
    }
    return parse_attributes(op_, text);
  }

  const Operator& op_;
  std::mt19937 random_;
};

}  // namespace

TEST_CASE("Any operator called by name with any inputs and attributes runs or throws an Error") {
  const std::vector<const Operator*> all = operators();
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    for (std::size_t at = 0; at < all.size(); ++at) {
      CAPTURE(all[at]->name, seed);
      CHECK(AnyCall(*all[at], 1000 * seed + static_cast<std::uint32_t>(at)).run() == "");
    }
  }
}

TEST_CASE("Compositions of any number of inputs refuse none at all") {
  const std::set<std::string> of_none = {"meshgrid", "random_permutation"};  // no arrays; of numbers up to n
  std::size_t tried = 0;
  for (const Operator* op : operators()) {
    if (op->inputs >= 0 || op->composition == nullptr || op->infer == nullptr || of_none.count(op->name) > 0)
      continue;
    CAPTURE(op->name);
    CHECK_THROWS_AS(invoke(*op, std::span<const NDArray>{}, make_attributes(*op, {}), {}), Error);
    ++tried;
  }
  CHECK(tried > 5);
}

TEST_CASE("Operators called by name refuse types that they would write beyond") {
  const Operator& weights = *find_operator("dense_backward_weights");
  const NDArray whole = ones({3, 5}, {.dtype = int64});
  const Operator& drop = *find_operator("dropout");
  CHECK_THROWS_AS(invoke_one(drop, {ones({3, 5}, {.dtype = int8})}, parse_attributes(drop, ""), {}), DTypeError);
  CHECK_THROWS_AS(invoke_one(weights, {whole, ones({3, 4})}, parse_attributes(weights, ""), {}), DTypeError);
}

TEST_CASE("Attributes that are no distribution and no mode are refused by name too") {
  const auto call = [](const char* name, const char* attributes, const std::vector<NDArray>& inputs = {}) {
    const Operator& op = *find_operator(name);
    return invoke(op, inputs, parse_attributes(op, attributes), SourceLocation::current()).at(0);
  };
  // Where numbers of another size would be written, or nothing at all.
  for (const char* const name : {"random_uniform", "random_normal"}) {
    CHECK_THROWS_AS(call(name, "shape=(4,), dtype=uint8, second=1.0"), DTypeError);
    CHECK_THROWS_AS(call(name, "shape=(4,), dtype=float32, second=nan"), ValueError);
    CHECK_THROWS_AS(call(name, "shape=(-4,), dtype=float32, second=1.0"), ShapeError);
  }
  CHECK_THROWS_AS(call("random_randint", "shape=(4,), dtype=float32, second=5"), DTypeError);
  CHECK_THROWS_AS(call("random_randint", "shape=(4,), dtype=int64"), ValueError);  // a division by the range
  CHECK_THROWS_AS(call("random_randint", "shape=(4,), dtype=uint8, second=257"), ValueError);
  CHECK(call("random_randint", "shape=(4,), dtype=uint8, first=255, second=256").to_vector<int>()[3] == 255);
  for (const char* const chance : {"-0.5", "1.5", "nan"}) {
    CHECK_THROWS_AS(call("random_bernoulli", message("shape=(4,), first=", chance).c_str()), ValueError);
    CHECK_THROWS_AS(call("dropout", message("rate=", chance).c_str(), {ones({4})}), ValueError);
  }
  CHECK_THROWS_AS(call("random_exponential", "shape=(4,), first=-1.0"), ValueError);
  CHECK_THROWS_AS(call("random_laplace", "shape=(4,), second=-1.0"), ValueError);
  CHECK_THROWS_AS(call("random_gumbel", "shape=(4,), first=inf"), ValueError);
  CHECK_THROWS_AS(call("random_gamma", "shape=(4,), first=-1.0"), ValueError);
  CHECK_THROWS_AS(call("random_beta", "shape=(4,), first=-1.0"), ValueError);
  CHECK_THROWS_AS(call("random_poisson", "shape=(4,), first=nan"), ValueError);
  CHECK_THROWS_AS(call("random_truncated_normal", "shape=(4,), third=2.0, fourth=1.0"), ValueError);
  const NDArray x = arange(0, 4), at = array<int>({5});
  for (const char* const mode : {"mode=3", "mode=-1"}) {
    CHECK_THROWS_WITH(call("take", mode, {x, at}), sluice::test::contains("take: mode"));
    CHECK_THROWS_AS(call("index_update", mode, {x, at, ones({1})}), ValueError);
    CHECK_THROWS_AS(call("pick", mode, {x, zeros({}, {.dtype = int64})}), ValueError);
  }
  CHECK(call("take", "mode=2", {x, at}).item<float>() == 1);
}
