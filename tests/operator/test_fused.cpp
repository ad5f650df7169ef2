// Programs of elementwise calls: as text, and that they give to the last bit what the calls give one by one.
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/fused/fused.h>

#include "tests/engine/expect.h"
#include "tests/operator/elementwise_rows.h"
#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using fused::k_fused;
using fused::parse;

Arrays run(const std::string& text, const Arrays& inputs, const Arrays& destinations = {}) {
  return invoke(k_fused, inputs, fused::attributes_of(parse(text)), SourceLocation::current(), destinations);
}

// What the calls give one by one.
Arrays alone(const std::string& text, const Arrays& inputs) {
  return fused::compose(inputs, fused::attributes_of(parse(text)), SourceLocation::current());
}

void check_same(const std::string& text, const Arrays& inputs) {
  CAPTURE(text);
  CHECK(all_bytes(run(text, inputs)) == all_bytes(alone(text, inputs)));
}

std::string refusal(const std::string& text) {
  return text_of_error([&] { (void)parse(text); });
}

}  // namespace

TEST_CASE("A program is the same when its text is read again", "[fused]") {
  for (const std::string text :
       {"float32 float32; %2 = add(%0, %1) float32; %3 = relu(%2) float32; -> %3",
        "float32; %1 = clip(%0) {low=0, high=6.5} float32; %2 = greater(%1) {number=0.25, first=false} bool; -> %2, %1",
        "float16 bool; %2 = where(%1, %0) {number=-inf, first=true} float16; %3 = astype(%2) {dtype=float32} float32; "
        "-> %3",
        "int8; %1 = left_shift(%0, %0) int8; %2 = copy(%1) {dtype=int64, device=none} int64; -> %2"}) {
    CAPTURE(text);
    CHECK(to_text(parse(text)) == text);
  }
}

TEST_CASE("A text that is no program is refused with the place", "[fused]") {
  CHECK(refusal("").find("position 0: a type was expected") != std::string::npos);
  CHECK(refusal("float3; -> %0").find("a type was expected") != std::string::npos);
  CHECK(refusal("float32; %1 = nothing(%0) float32; -> %1").find("no operator nothing") != std::string::npos);
  CHECK(
      refusal("float32; %1 = sum(%0) {axes=(), keepdims=false} float32; -> %1").find("no call of a program") !=
      std::string::npos);
  CHECK(refusal("float32; %1 = relu(%1) float32; -> %1").find("%1 is not made yet") != std::string::npos);
  CHECK(refusal("float32; %2 = relu(%0) float32; -> %2").find("%1 was expected") != std::string::npos);
  CHECK(refusal("float32; %1 = relu(%0) float64; -> %1").find("gives float32, not float64") != std::string::npos);
  CHECK(refusal("float32; %1 = add(%0) float32; -> %1").find("takes 2 inputs") != std::string::npos);
  CHECK(refusal("float32 int32; %2 = add(%0, %1) float32; -> %2").find("position") != std::string::npos);
  CHECK(refusal("float32; %1 = add(%0) {number=1 float32; -> %1").find("'}'") != std::string::npos);
  CHECK(refusal("float32; %1 = relu(%0) float32; -> %0").find("result of a call") != std::string::npos);
  CHECK(refusal("float32; %1 = relu(%0) float32; -> %1 more").find("the end") != std::string::npos);
  CHECK(
      refusal("float32; %1 = to(%0) {device=cpu(0)} float32; -> %1").find("no call of a program") != std::string::npos);
}

TEST_CASE("Inputs that are not the program's are refused", "[fused]") {
  const std::string text = "float32 float32; %2 = add(%0, %1) float32; -> %2";
  CHECK_THROWS_AS(run(text, {zeros({2})}), ValueError);
  CHECK_THROWS_AS(run(text, {zeros({2}), zeros({2}, {.dtype = int32})}), DTypeError);
  CHECK_THROWS_AS(run(text, {zeros({2}), zeros({3})}), ShapeError);
}

TEST_CASE("Every row gives in a program what it gives alone, of every type that it takes", "[fused]") {
  int checked = 0;
  for (const DType dtype : k_all_dtypes) {
    const NDArray a = random_array({3, 700}, 1, -3, 3, dtype), b = random_array({3, 700}, 2, -3, 3, dtype);
    for (const Operator* op : operators()) {
      if (!op->elementwise || op == &k_fused || std::string(op->name) == "where")
        continue;
      const std::string name = op->name;
      const std::size_t operands = op->inputs > 0 ? static_cast<std::size_t>(op->inputs) : 2;
      fused::Program program{.inputs = {dtype, dtype}};
      fused::Call call{.op = op, .attributes = op->optional_attributes ? Attributes() : make_attributes(*op, {})};
      for (std::size_t i = 0; i < operands; ++i)
        call.operands.push_back(static_cast<fused::Number>(i % 2));
      const Specs specs(operands, ArraySpec{{1}, dtype, cpu()});
      try {
        call.dtype = infer(*op, specs, call.attributes)[0].dtype;
        program.calls.push_back(call);
        program.outputs.push_back(2);
        (void)parse(to_text(program));
      } catch (const Error&) {
        continue;  // not of that type
      }
      check_same(to_text(program), {a, b});
      ++checked;
    }
  }
  CHECK(checked > 400);
}

TEST_CASE("Half types are rounded after each call, as they are by single ones", "[fused]") {
  for (const DType dtype : {float16, bfloat16}) {
    const std::string t = std::string(name_of(dtype));
    const NDArray a = random_array({5000}, 3, -200, 200, dtype), b = random_array({5000}, 4, -3, 3, dtype);
    check_same(
        t + " " + t + "; %2 = multiply(%0, %1) " + t + "; %3 = add(%2, %0) " + t + "; %4 = exp(%3) " + t +
            "; %5 = astype(%3) {dtype=float32} float32; %6 = tanh(%5) float32; %7 = astype(%6) {dtype=" + t + "} " + t +
            "; -> %4, %7, %2",
        {a, b});
  }
}

TEST_CASE("Casts of a program round once, as single ones do", "[fused]") {
  for (const DType from : k_all_dtypes) {
    for (const DType to : k_all_dtypes) {
      const NDArray a = random_array({3000}, 5, 0, 120, from);
      const std::string f(name_of(from)), t(name_of(to));
      check_same(
          f + "; %1 = astype(%0) {dtype=" + t + "} " + t + "; %2 = astype(%1) {dtype=" + f + "} " + f + "; -> %1, %2",
          {a});
    }
  }
}

TEST_CASE("Special values go through a program as through its calls", "[fused]") {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const NDArray a = array<float>({0, -0.0f, inf, -inf, nan, 1e-40f, -1e-40f, 3e38f, 1, -1});
  check_same(
      "float32 float32; %2 = multiply(%0, %1) float32; %3 = add(%2) {number=1e-40, first=false} float32; "
      "%4 = maximum(%3, %0) float32; %5 = relu(%4) float32; %6 = isnan(%5) bool; -> %2, %3, %5, %6",
      {a, a.reshape({10, 1})});
}

namespace {

const char* const k_mixed =
    "float32 float32 float32; %3 = multiply(%0, %1) float32; %4 = add(%3) {number=0.5, first=false} float32; "
    "%5 = greater(%4, %2) bool; %6 = where(%5, %4, %2) float32; %7 = subtract(%6, %0) float32; -> %4, %7";

}  // namespace

TEST_CASE("Inputs of any layout and size give the same as single calls", "[fused]") {
  const auto draw = [](const Shape& shape, std::uint64_t seed) { return random_array(shape, seed); };
  const Arrays layouts[] = {
      {draw({6, 50}, 1), draw({50}, 2), draw({6, 1}, 3)},
      {draw({50, 6}, 4).T(), draw({6, 50}, 5), draw({}, 6)},
      {draw({50, 6}, 7).T(), draw({50, 6}, 8).T(), draw({50, 6}, 9).T()},
      {draw({6, 150}, 10).slice(1, 1, 150, 3), draw({6, 50}, 11), draw({1, 50}, 12).broadcast_to({6, 50})},
      {draw({6, 50}, 13).slice(1, 49, -51, -1), draw({6, 50}, 14), draw({6, 50}, 15)},
      {draw({300, 2}, 16), draw({2}, 17), draw({300, 1}, 18)},
      {draw({7, 9001}, 19).slice(1, 3, 9001), draw({8998}, 20), draw({7, 1}, 21)},
      {draw({999, 30}, 22), draw({30}, 23), draw({999, 1}, 24)},
      {draw({40, 1, 70}, 25), draw({1, 33, 1}, 26), draw({40, 33, 70}, 27).swapaxes(0, 0)},
      {draw({70, 33, 40}, 28).swapaxes(0, 2), draw({33, 1}, 29), draw({70}, 30)},
      {draw({}, 31), draw({}, 32), draw({}, 33)},
      {draw({1}, 34), draw({1, 1}, 35), draw({1}, 36)},
      {draw({0, 5}, 37), draw({5}, 38), draw({1, 5}, 39)},
      {draw({100003}, 40), draw({100003}, 41), draw({1}, 42)},
  };
  for (const Arrays& inputs : layouts)
    check_same(k_mixed, inputs);
}

TEST_CASE("Results go where they are wanted, strided or over what is read", "[fused]") {
  for (const std::int64_t rows : {1, 6, 700}) {
    const Arrays inputs{random_array({rows, 50}, 1), random_array({50}, 2), random_array({rows, 1}, 3)};
    const auto wanted = all_bytes(alone(k_mixed, inputs));
    const NDArray wide = zeros({50, 2 * rows}), turned = zeros({50, rows});
    const Arrays strided{wide.slice(1, 0, 2 * rows, 2).T(), turned.T()};
    CHECK(all_bytes(run(k_mixed, inputs, strided)) == wanted);
    // The first output is written while the first input is still to be read.
    for (const int over : {0, 1}) {
      Arrays given = inputs;
      given[0] = inputs[0].copy();
      Arrays results{zeros({rows, 50}), zeros({rows, 50})};
      results[static_cast<std::size_t>(over)] = given[0];
      CHECK(all_bytes(run(k_mixed, given, results)) == wanted);
    }
    // An input is a part of what is written.
    const NDArray whole = random_array({rows, 50}, 4);
    const Arrays parts{inputs[0], whole[0], inputs[2]};
    const auto wanted_of_parts = all_bytes(alone(k_mixed, parts));
    CHECK(all_bytes(run(k_mixed, parts, {whole, zeros({rows, 50})})) == wanted_of_parts);
  }
}

TEST_CASE("A program whose result is smaller than its inputs' shape is stretched to it", "[fused]") {
  const Arrays inputs{random_array({4, 5}, 1), random_array({5}, 2)};
  const std::string text = "float32 float32; %2 = relu(%1) float32; %3 = add(%0, %1) float32; -> %2, %3";
  CHECK(run(text, inputs)[0].shape() == Shape{4, 5});
  check_same(text, inputs);
}

TEST_CASE("A fused operator is exported and imported by name and text", "[fused]") {
  CHECK(find_operator("fused") == &k_fused);
  const Attributes made = fused::attributes_of(parse(k_mixed));
  const Attributes read = parse_attributes(k_fused, to_string(made));
  CHECK(&fused::program_of(read) == &fused::program_of(made));
  const Arrays inputs{random_array({3}, 1), random_array({3}, 2), random_array({3}, 3)};
  CHECK(all_bytes(invoke(k_fused, inputs, read, SourceLocation::current())) == all_bytes(alone(k_mixed, inputs)));
}

TEST_CASE("A program runs on a GPU too, and gives what its calls give there", "[fused][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const Arrays inputs{
      random_array({6, 50}, 1, -1, 1, float32, gpu(0)),
      random_array({50}, 2, -1, 1, float32, gpu(0)),
      random_array({6, 1}, 3, -1, 1, float32, gpu(0))};
  check_same(k_mixed, inputs);
}
