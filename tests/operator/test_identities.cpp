// Calls that change nothing go, calls that nearly do stay: bits are compared, NaNs', zeros' and denormals' too.
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/api.h>
#include <sluice/operator/graph/passes.h>

#include "tests/operator/random_program.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"

using namespace sluice;
using namespace sluice::test;
using graph::Graph;
using graph::Plan;
using graph::Tracer;

namespace {

using Program = std::function<Arrays(const NDArray&, const NDArray&)>;

Graph traced(const NDArray& x, const NDArray& y, const Program& program) {
  Tracer tracer;
  const NDArray a = tracer.input({x.shape(), x.dtype(), x.device()}),
                b = tracer.input({y.shape(), y.dtype(), y.device()});
  return tracer.trace([&] { return program(a, b); });
}

std::string bits_of(const Arrays& arrays) {
  std::string bits;
  for (const NDArray& array : arrays) {
    const NDArray packed = array.contiguous();
    packed.wait_to_read();
    const auto bytes = static_cast<std::size_t>(packed.size()) * size_of(packed.dtype());
    bits.append(reinterpret_cast<const char*>(packed.object()->data()), bytes);
  }
  return bits;
}

// Each twice in a row, so that two operands meet in all ways.
NDArray special_values() {
  using Limits = std::numeric_limits<float>;
  std::vector<float> values{
      0.0f, -0.0f, 1.0f, -1.0f, 0.3f, -7.25f, 1e30f, -1e-30f, Limits::infinity(), -Limits::infinity()};
  values.insert(values.end(), {Limits::quiet_NaN(), -Limits::quiet_NaN(), Limits::denorm_min(), -Limits::denorm_min()});
  values.insert(
      values.end(), {Limits::min(), Limits::max(), 1e-40f, std::bit_cast<float>(0x7fa00001u), 65504.0f, 6e-8f});
  return array(values, {4, 5});
}
NDArray turned_values() {
  const NDArray values = special_values();
  return concat({values.slice(0, 1, 4), values.slice(0, 0, 1)}, 0);
}

NDArray as(const NDArray& values, DType dtype) {
  return is_floating(dtype) ? values.astype(dtype) : clip(values, -100, 100).astype(dtype);
}

struct Case {
  const char* name;
  Program program;
  std::size_t stay;  // nodes, dead ones not counted
  DType dtype = float32;
};

std::size_t nodes_left(const Graph& graph) {
  const Graph less = without_dead_code(without_identities(graph));
  verify(less);
  return less.nodes.size();
}

void check(const Case& one) {
  CAPTURE(one.name);
  const NDArray x = as(special_values(), one.dtype), y = as(turned_values(), one.dtype);
  const Graph graph = traced(x, y, one.program);
  CHECK(nodes_left(graph) == one.stay);
  const NDArray inputs[] = {x, y};
  const std::string wanted = bits_of(one.program(x, y));
  CHECK((bits_of(evaluate(without_identities(graph), inputs)) == wanted));
  Plan plan(graph);
  for (int run = 0; run < 2; ++run)
    CHECK((bits_of(plan.run(inputs)) == wanted));
}

}  // namespace

TEST_CASE("Calls that leave arithmetic as it is go", "[graph][identities]") {
  for (const DType dtype : {float32, float64, float16, bfloat16}) {
    CAPTURE(dtype);
    check({"times one", [](auto& a, auto& b) { return Arrays{tanh((a + b) * 1.0)}; }, 2, dtype});
    check({"one times", [](auto& a, auto& b) { return Arrays{tanh(1.0 * (a - b))}; }, 2, dtype});
    check({"by one", [](auto& a, auto& b) { return Arrays{tanh((a * b) / 1.0)}; }, 2, dtype});
    check({"less zero", [](auto& a, auto& b) { return Arrays{tanh((a / b) - 0.0)}; }, 2, dtype});
    check({"and minus zero", [](auto& a, auto& b) { return Arrays{tanh((a + b) + -0.0)}; }, 2, dtype});
    check({"relu of relu", [](auto& a, auto& b) { return Arrays{relu(relu(a)) * b}; }, 2, dtype});
    check({"abs of abs", [](auto& a, auto& b) { return Arrays{abs(abs(abs(a))) * b}; }, 2, dtype});
    check({"floor of floor", [](auto& a, auto& b) { return Arrays{floor(floor(a)) * b}; }, 2, dtype});
    check({"one array", [](auto& a, auto& b) { return Arrays{where(a > b, b, b) * 2.0}; }, 1, dtype});
  }
  check(
      {"to float64 and back",
       [](auto& a, auto& b) { return Arrays{tanh((a * b).astype(float64).astype(float32))}; },
       2});
  check(
      {"half and back",
       [](auto& a, auto& b) { return Arrays{tanh((a * b).astype(float32).astype(float16))}; },
       2,
       float16});
  check({"twice negative", [](auto& a, auto& b) { return Arrays{-(-a) + b}; }, 1});
  check({"four times", [](auto& a, auto& b) { return Arrays{-(-(-(-a))) + b}; }, 1, float64});
}

TEST_CASE("What packs a view stays where its readers would add up in another order", "[graph][identities]") {
  const NDArray x = random_array({64, 96}, 1, -1, 1, float32), y = random_array({64, 96}, 2, -1, 1, float32);
  const Program programs[] = {
      [](auto& a, auto& b) { return Arrays{sum(-(-(a * b).T()), {0})}; },
      [](auto& a, auto& b) {
        const NDArray turned = (a * b).T();
        return Arrays{sum(where(a.T() > b.T(), turned, turned), {0})};
      }};
  for (const Program& program : programs) {
    const NDArray inputs[] = {x, y};
    const Graph graph = traced(x, y, program);
    const std::string wanted = bits_of(program(x, y));
    CHECK((bits_of(evaluate(without_identities(graph), inputs)) == wanted));
    CHECK((bits_of(Plan(graph).run(inputs)) == wanted));
  }
}

TEST_CASE("Calls that change a zero's sign, a denormal or a type stay", "[graph][identities]") {
  check({"and zero", [](auto& a, auto& b) { return Arrays{tanh((a * b) + 0.0)}; }, 3});
  check({"less minus zero", [](auto& a, auto& b) { return Arrays{tanh((a * b) - -0.0)}; }, 3});
  check({"zero less", [](auto& a, auto& b) { return Arrays{tanh(0.0 - (a * b))}; }, 3});
  check({"one by", [](auto& a, auto& b) { return Arrays{tanh(1.0 / (a * b))}; }, 3});
  check({"of what was given", [](auto& a, auto& b) { return Arrays{a * 1.0 + where(a > b, a, b) * 1.0}; }, 5});
  check(
      {"narrower and back", [](auto& a, auto& b) { return Arrays{tanh((a * b).astype(float16).astype(float32))}; }, 4});
  check(
      {"bfloat16 and back",
       [](auto& a, auto& b) { return Arrays{tanh((a * b).astype(bfloat16).astype(float16))}; },
       4,
       float16});
  check({"two arrays", [](auto& a, auto& b) { return Arrays{where(a > b, a, b) * 2.0}; }, 3});
  check(
      {"of a wider shape",
       [](auto& a, auto& b) {
         const NDArray row = b.slice(0, 0, 1);
         return Arrays{where(a > b, row, row) * 2.0};
       },
       4});
  check({"half negative", [](auto& a, auto& b) { return Arrays{-(-a) + b}; }, 3, float16});
  check({"whole beside real", [](auto& a, auto& b) { return Arrays{(a + b) * 1.0}; }, 3, int32});
  check(
      {"float32 of int32",
       [](auto& a, auto& b) { return Arrays{(a + b).astype(float32).astype(int32) * a}; },
       4,
       int32});
  check(
      {"not of a number",
       [](auto& a, auto& b) { return Arrays{logical_and(logical_not(logical_not(a)), b)}; },
       4,
       int32});
}

TEST_CASE("Whole numbers and truths keep what they are", "[graph][identities]") {
  for (const DType dtype : {int8, uint8, int32, int64}) {
    CAPTURE(dtype);
    check({"times one", [](auto& a, auto& b) { return Arrays{(a * 1) * b}; }, 1, dtype});
    check({"and nothing", [](auto& a, auto& b) { return Arrays{(0 + a - 0) * b}; }, 1, dtype});
    check({"twice negative", [](auto& a, auto& b) { return Arrays{-(-a) * b}; }, 1, dtype});
    check({"twice inverted", [](auto& a, auto& b) { return Arrays{bitwise_not(bitwise_not(a)) * b}; }, 1, dtype});
  }
  check({"wider", [](auto& a, auto& b) { return Arrays{a.astype(int64).astype(int8) * b}; }, 1, int8});
  check({"signed", [](auto& a, auto& b) { return Arrays{a.astype(int32).astype(uint8) * b}; }, 1, uint8});
  check({"as real", [](auto& a, auto& b) { return Arrays{a.astype(float64).astype(int32) * b}; }, 1, int32});
  check({"unsigned", [](auto& a, auto& b) { return Arrays{a.astype(uint8).astype(int8) * b}; }, 3, int8});
  check({"twice not", [](auto& a, auto& b) { return Arrays{logical_and(logical_not(logical_not(a)), b)}; }, 1, bool_});
}

TEST_CASE("Views of views that come back are the array itself", "[graph][identities]") {
  check({"turned", [](auto& a, auto& b) { return Arrays{a.T().T() + b}; }, 1});
  check({"reshaped", [](auto& a, auto& b) { return Arrays{a.reshape({20}).reshape({2, 10}).reshape({4, 5}) + b}; }, 1});
  check({"one reshape", [](auto& a, auto& b) { return Arrays{a.reshape({20}).reshape({2, 10}) * 2.0, b * 2.0}; }, 3});
  check({"expanded", [](auto& a, auto& b) { return Arrays{a.expand_dims(0).squeeze(0) + b}; }, 1});
  check({"all of it", [](auto& a, auto& b) { return Arrays{a.slice(0, 0, 4).broadcast_to({4, 5}) + b}; }, 1});
  check({"from behind", [](auto& a, auto& b) { return Arrays{a.slice(0, 3, -5, -1) + b}; }, 2});
  check({"turned once", [](auto& a, auto& b) { return Arrays{a.T() + b.T()}; }, 3});
  const NDArray cube = arange(0, 24).reshape({2, 3, 4});
  const auto turned = [&](const Shape& first, const Shape& second) {
    return traced(cube, cube, [&](auto& a, auto&) { return Arrays{a.transpose(first).transpose(second) * 2.0}; });
  };
  CHECK(nodes_left(turned({1, 2, 0}, {2, 0, 1})) == 1);
  CHECK(nodes_left(turned({1, 2, 0}, {-1, 0, 1})) == 1);
  CHECK(nodes_left(turned({1, 2, 0}, {1, 2, 0})) == 3);
}

TEST_CASE("What the caller is given stays an array of its own", "[graph][identities]") {
  const NDArray x = special_values(), kept = full({4, 5}, 2.0f);
  const auto left = [&](const Program& program) { return nodes_left(traced(x, x, program)); };
  CHECK(left([](auto& a, auto&) { return Arrays{a.copy()}; }) == 1);
  CHECK(left([&](auto&, auto&) { return Arrays{kept.copy()}; }) == 1);
  CHECK(left([](auto& a, auto& b) { return Arrays{(a + b).copy()}; }) == 1);
  CHECK(left([](auto& a, auto& b) {
          const NDArray sum = a + b;
          return Arrays{sum, sum.copy(), sum * 1.0};
        }) == 3);
  CHECK(left([](auto& a, auto& b) {  // one of them may be the sum itself
          const NDArray sum = a + b;
          return Arrays{sum.copy(), sum.copy(), sum * 1.0};
        }) == 3);
  CHECK(left([](auto& a, auto& b) {  // one is written
          NDArray sum = a + b;
          const NDArray before = sum.copy();
          sum += 1.0;
          return Arrays{before * sum};
        }) == 4);
  CHECK(left([](auto& a, auto& b) {  // a copy of a view packs it
          return Arrays{matmul((a + b).T().copy(), a)};
        }) == 4);
}

TEST_CASE("Every half and bfloat16 passes through float32 and a product with 1 as it is", "[graph][identities]") {
  std::vector<std::uint16_t> patterns(65536);
  std::iota(patterns.begin(), patterns.end(), std::uint16_t{0});
  for (const DType dtype : {float16, bfloat16}) {
    CAPTURE(dtype);
    const NDArray all = empty({65536}, {.dtype = dtype});
    all.wait_to_read();
    std::memcpy(all.object()->data(), patterns.data(), 2 * patterns.size());
    const Program programs[] = {
        [](auto& a, auto&) { return Arrays{relu((a - 0.0) * 1.0)}; },
        [&](auto& a, auto&) { return Arrays{((a - 0.0).astype(float32).astype(dtype)).slice(0, 1, 65536) * 1.0}; },
    };
    for (const Program& program : programs) {
      const Graph graph = traced(all, all, program);
      CHECK(nodes_left(graph) < graph.nodes.size());
      const NDArray inputs[] = {all, all};
      CHECK((bits_of(evaluate(without_identities(graph), inputs)) == bits_of(program(all, all))));
    }
  }
}

TEST_CASE("Random programs keep their bits without identities", "[graph][identities]") {
  std::size_t shorter = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    const RandomProgram program(seed, cpu());
    Tracer tracer;
    Arrays abstract;
    for (const NDArray& input : program.inputs())
      abstract.push_back(tracer.input({input.shape(), input.dtype(), cpu()}));
    const Graph graph = tracer.trace([&] { return program.run(abstract); });
    const Graph less = without_identities(graph);
    verify(less);
    shorter += less.nodes.size() < graph.nodes.size() ? 1 : 0;
    REQUIRE(all_bytes(evaluate(less, program.inputs())) == all_bytes(program.run(program.inputs())));
  }
  CHECK(shorter > 100);
}
