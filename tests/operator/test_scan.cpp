// cumsum, cumprod, cummax, cummin, linear_recurrence and diff: what NumPy and PyTorch give, for every type and axis.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using test::differences;
using test::random_array;

namespace {

using Index = std::int64_t;
constexpr double k_nan = std::numeric_limits<double>::quiet_NaN(), k_inf = std::numeric_limits<double>::infinity();

/// Calls visit(index of an element, of the one before it in the scan or -1, entry), axis rows one after the other.
void for_each_in_scan(
    const Shape& shape, int axis, bool reverse, const std::function<void(std::size_t, Index, Index)>& visit) {
  const Index n = shape[axis];
  Shape first = shape;
  first[axis] = 1;
  for (Index row = 0; row < first.size(); ++row) {
    auto index = test::unravel(first, row);
    Index before = -1;
    for (Index i = 0; i < n; ++i) {
      index[static_cast<std::size_t>(axis)] = reverse ? n - 1 - i : i;
      const Index at = test::ravel(shape, index);
      visit(static_cast<std::size_t>(at), before, index[static_cast<std::size_t>(axis)]);
      before = at;
    }
  }
}

NDArray totals(const NDArray& x, int axis, bool reverse, bool product) {
  test::Dense y(x);
  for_each_in_scan(x.shape(), axis, reverse, [&](std::size_t at, Index before, Index) {
    if (before >= 0 && product)
      y.values[at] *= y.values[static_cast<std::size_t>(before)];
    else if (before >= 0)
      y.values[at] += y.values[static_cast<std::size_t>(before)];
  });
  return y.array();
}

Extremes extremes(const NDArray& x, int axis, bool largest) {
  test::Dense y(x), at_entry(x.shape(), 0);
  for_each_in_scan(x.shape(), axis, false, [&](std::size_t at, Index before, Index entry) {
    const double value = y.values[at], best = before < 0 ? value : y.values[static_cast<std::size_t>(before)];
    const bool wins = before < 0 || std::isnan(value) || (largest ? value >= best : value <= best);
    y.values[at] = wins ? value : best;
    at_entry.values[at] = wins ? static_cast<double>(entry) : at_entry.values[static_cast<std::size_t>(before)];
  });
  return {y.array(), at_entry.array()};
}

/// All scans of x against the loops above, on its device.
void check(const NDArray& x, int axis, double tolerance = 0) {
  CAPTURE(x.dtype(), x.shape(), x.strides(), axis);
  const NDArray here = x.to(cpu());
  test::Tolerance near = test::tolerance_of(x.dtype());
  if (tolerance > 0)
    near = {tolerance, tolerance};
  for (const bool reverse : {false, true}) {
    CAPTURE(reverse);
    for (const bool product : {false, true}) {
      const NDArray y = product ? cumprod(x, axis, reverse) : cumsum(x, axis, reverse);
      CHECK(y.dtype() == (is_floating(x.dtype()) || x.dtype() == uint64 ? x.dtype() : int64));
      CHECK(differences(y, totals(here, axis, reverse, product), near) == "");
    }
  }
  for (const bool largest : {true, false}) {
    const Extremes got = largest ? cummax(x, axis) : cummin(x, axis), want = extremes(here, axis, largest);
    CHECK(got.values.dtype() == x.dtype());
    CHECK(got.indices.dtype() == int64);
    CHECK(differences(got.values, want.values, {0, 0}) == "");
    CHECK(differences(got.indices, want.indices, {0, 0}) == "");
  }
}

// Few different ones, so that there are ties; products stay in range.
NDArray drawn(const Shape& shape, DType dtype, Device device = cpu()) {
  const NDArray whole = floor(random_array(shape, 5, -1, 2.99, float64));
  const NDArray numbers = is_unsigned(dtype) || dtype == bool_ ? abs(whole) : whole;
  const NDArray made = is_floating(dtype) ? where(numbers == 2, full(shape, -0.5, {.dtype = float64}), numbers)
                                          : where(numbers == 2, full(shape, 1, {.dtype = float64}), numbers);
  return made.astype(dtype).to(device);
}

void check_layouts(DType dtype, Device device) {
  for (const int axis : {0, 1, 2}) {
    check(drawn({3, 5, 4}, dtype, device), axis);
    check(drawn({4, 5, 3}, dtype, device).T(), axis);
    check(drawn({3, 9, 6}, dtype, device).slice(1, 7, 0, -2).slice(2, 1, 5), axis);
    check(drawn({3, 1, 4}, dtype, device).broadcast_to({3, 5, 4}), axis);
    check(drawn({1, 1, 1}, dtype, device), axis);
  }
  for (const Shape& none : {Shape{0, 3}, Shape{3, 0}})
    check(drawn(none, dtype, device), 1);
}

// Rows and columns where tiles, vectors and pieces begin and end. Sums of ones that grow, products of signs.
void check_long(DType dtype, Device device, const std::vector<Shape>& shapes) {
  for (const Shape& shape : shapes) {
    const NDArray signs = where(random_array(shape, 6) < 0, full(shape, -1), ones(shape)).astype(dtype).to(device);
    for (int axis = 0; axis < shape.ndim(); ++axis)
      check(signs, axis);
  }
}

const std::vector<Shape> k_long_shapes = {
    {3, 15}, {3, 16}, {3, 17}, {2, 31}, {2, 128}, {2, 129}, {5, 512}, {3, 1021}, {2, 2052}, {33000}, {6500, 3}};

std::vector<Device> devices() {
  return num_gpus() > 0 ? std::vector<Device>{cpu(), gpu()} : std::vector<Device>{cpu()};
}

}  // namespace

TEST_CASE("Scans go along each axis of every type and layout", "[operator][scan]") {
  for (const DType dtype : test::all_dtypes())
    check_layouts(dtype, cpu());
}

TEST_CASE("Scans of long rows and columns, in pieces too", "[operator][scan]") {
  for (const DType dtype : {float32, float64, bfloat16, int32, bool_})
    check_long(dtype == bool_ ? int8 : dtype, cpu(), k_long_shapes);
  check(drawn({100003}, float64), 0, 1e-9);
  check(random_array({70001, 2}, 3, 0, 1e-3, float32), 0, 1e-5);
  // Products that do not fit by themselves, behind one that is 0.
  for (const DType dtype : {float16, float32, float64}) {
    for (const bool reverse : {false, true}) {
      NDArray x = full({200000}, 2, {.dtype = dtype});
      const Index first = reverse ? 199999 : 0;
      x.slice(0, first, first + 1).assign(0);
      CHECK(max_norm(cumprod(x, 0, reverse)).item<double>() == 0);
    }
  }
}

TEST_CASE("Scans go along each axis of every type and layout on a GPU", "[operator][scan][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : test::all_dtypes())
    check_layouts(dtype, gpu());
}

TEST_CASE("Scans of long rows and columns on a GPU: vectors, tiles and pieces", "[operator][scan][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : {float32, float16, float64, int32})
    check_long(dtype, gpu(), k_long_shapes);
  // In pieces by hundreds, and at an address that is not a whole vector.
  check_long(bfloat16, gpu(), {{2, 33000}, {17000, 1}});
  const NDArray odd = drawn({2, 4101}, float32, gpu());
  check(odd.slice(0, 1, 2).slice(1, 1, 4101), 1, 1e-5);
}

TEST_CASE("Scans of whole numbers are exact and wrap", "[operator][scan]") {
  const NDArray big = array<Index>({std::numeric_limits<Index>::max(), 1, 5});
  CHECK(cumsum(big).to_vector<Index>()[1] == std::numeric_limits<Index>::min());
  CHECK(cumprod(big, 0).to_vector<Index>()[2] == static_cast<Index>(~std::uint64_t{0} / 2 * 5));
  CHECK(cumsum(array<std::uint8_t>({200, 100})).to_vector<Index>() == std::vector<Index>{200, 300});
  CHECK(cumsum(full({5000}, 1, {.dtype = float16}), 0).to_vector<double>()[4999] == 5000);  // not 2048
  const NDArray many = cumsum(ones({1 << 25}));
  CHECK(many.slice(0, (1 << 25) - 1, 1 << 25).item<double>() == (1 << 25));  // not 2^24, where float stands still
}

TEST_CASE("Scans take NaN, infinities and signed zeros as NumPy and PyTorch do", "[operator][scan][gpu]") {
  for (const Device device : devices()) {
    for (const DType dtype : test::floating_dtypes()) {
      CAPTURE(device, dtype);
      const auto of = [&](const std::vector<double>& values) {
        return array<double>(values, {static_cast<Index>(values.size())}).astype(dtype).to(device);
      };
      const auto signs = [](const NDArray& y) {
        std::vector<bool> negative;
        for (const double value : y.to_vector<double>())
          negative.push_back(std::signbit(value));
        return negative;
      };
      CHECK(signs(cumsum(of({-0.0, -0.0, 0.0, -0.0}))) == std::vector<bool>{true, true, false, false});
      CHECK(signs(cumprod(of({-0.0, -1.0, 0.0, -1.0}))) == std::vector<bool>{true, false, false, true});
      check(of({1, k_inf, 2, -k_inf, 3}), 0);
      check(of({1, k_nan, 2, k_inf, k_nan, -k_inf, 0}), 0);
      check(of({-k_inf, -k_inf, 0, -0.0, 0.0, k_inf, k_inf}), 0);
      CHECK(cummax(of({2, k_nan, 3, k_nan, 9}), 0).indices.to_vector<Index>() == std::vector<Index>{0, 1, 1, 3, 3});
      CHECK(cummin(of({2, 2, 3, 2}), 0).indices.to_vector<Index>() == std::vector<Index>{0, 1, 1, 3});
    }
  }
}

TEST_CASE("Scans without an axis are of one row, and name what does not fit", "[operator][scan]") {
  const NDArray x = arange(1, 7, 1).reshape({2, 3});
  CHECK(cumsum(x).to_vector<int>() == std::vector<int>{1, 3, 6, 10, 15, 21});
  CHECK(cumsum(x).shape() == Shape{6});
  CHECK(cumprod(x, -1).to_vector<int>() == std::vector<int>{1, 2, 6, 4, 20, 120});
  CHECK(cumsum(x, -2, true).to_vector<int>() == std::vector<int>{5, 7, 9, 4, 5, 6});
  CHECK(cumsum(full({}, 3)).shape() == Shape{1});
  CHECK_THROWS_AS(cumsum(x, 2), IndexError);
  CHECK_THROWS_AS(cumprod(x, -3), IndexError);
  CHECK_THROWS_AS(cummax(x, 2), IndexError);
  CHECK_THROWS_AS(cummax(full({}, 3), 0), IndexError);
  CHECK_THROWS_AS(cumsum(NDArray()), Error);
  CHECK_THROWS_AS(linear_recurrence(x, x.T(), 0), ShapeError);
  CHECK_THROWS_AS(linear_recurrence(x, x, 2), IndexError);
  CHECK_THROWS_WITH(cumsum(x, 2), test::contains("cumsum") && test::contains("2"));
}

TEST_CASE("A linear recurrence is its loop, whatever stands before the first entry", "[operator][scan][gpu]") {
  const auto loop = [](const NDArray& a, const NDArray& b, int axis, bool reverse) {
    const test::Dense factors(a);
    test::Dense y(b);
    for_each_in_scan(a.shape(), axis, reverse, [&](std::size_t at, Index before, Index) {
      if (before >= 0)
        y.values[at] += factors.values[at] * y.values[static_cast<std::size_t>(before)];
    });
    return y.array();
  };
  for (const Device device : devices()) {
    for (const Shape& shape : {Shape{3, 4, 5}, Shape{1, 33000, 1}, Shape{2, 2052, 1}, Shape{2, 600, 3}}) {
      for (const bool reverse : {false, true}) {
        const NDArray a = random_array(shape, 1, -1, 1, float64), b = random_array(shape, 2, -1, 1, float64);
        CAPTURE(device, shape, reverse);
        const NDArray y = linear_recurrence(a.to(device), b.to(device), 1, reverse);
        CHECK(differences(y, loop(a, b, 1, reverse), {1e-9, 1e-9}) == "");
      }
    }
    const NDArray a = array({k_inf, 2.0, k_nan, 0.0}).to(device), b = array({1.0, 1.0, 1.0, 1.0}).to(device);
    const std::vector<double> y = linear_recurrence(a, b, 0).to_vector<double>();
    CHECK((y[0] == 1 && y[1] == 3 && std::isnan(y[2]) && std::isnan(y[3])));
  }
  CHECK(linear_recurrence(ones({3}, {.dtype = int32}), ones({3}, {.dtype = int64}), 0).dtype() == float32);
  CHECK(linear_recurrence(ones({3}, {.dtype = float16}), ones({3}), 0).dtype() == float32);
}

TEST_CASE("Differences of neighbours are NumPy's", "[operator][scan]") {
  const NDArray x = array<int>({1, 2, 4, 7, 0});
  CHECK(diff(x).to_vector<int>() == std::vector<int>{1, 2, 3, -7});
  CHECK(diff(x, 2).to_vector<int>() == std::vector<int>{1, 1, -10});
  CHECK(diff(x, 0).to_vector<int>() == x.to_vector<int>());
  CHECK_FALSE(diff(x, 0).same(x));
  CHECK(diff(x, 4).to_vector<int>() == std::vector<int>{-11});
  for (const Index n : {Index{5}, Index{6}, std::numeric_limits<Index>::max()})
    CHECK(diff(x, n).shape() == Shape{0});
  CHECK(diff(zeros({0, 2}), 1, 0).shape() == Shape{0, 2});
  CHECK(diff(zeros({3, 2}).T(), 1, 0).shape() == Shape{1, 3});
  CHECK(diff(array<bool>({true, true, false})).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(diff(array<bool>({true, true, false})).dtype() == bool_);
  CHECK(diff(array<bool>({true, false, true, true}), 2).dtype() == bool_);
  CHECK(diff(array<bool>({true, false, true, true}), 2).to_vector<bool>() == std::vector<bool>{false, true});
  CHECK(diff(array<std::uint8_t>({5, 3})).to_vector<int>() == std::vector<int>{254});
  CHECK_THROWS_AS(diff(x, -1), ValueError);
  CHECK_THROWS_AS(diff(x, 1, 1), IndexError);
  CHECK_THROWS_AS(diff(full({}, 1)), IndexError);
}

TEST_CASE(
    "Gradients of scans agree with finite differences, those of products where factors are 0", "[operator][scan]") {
  for (const bool reverse : {false, true}) {
    for (const int axis : {0, 1, 2}) {
      CAPTURE(reverse, axis);
      const auto summed = [=](const auto& v) { return cumsum(v[0], axis, reverse); };
      const auto product = [=](const auto& v) { return cumprod(v[0], axis, reverse); };
      const auto twice = [=](const auto& v) {
        const autograd::RecordScope record;
        NDArray x = v[0];
        if (!autograd::on_tape(x)) {
          x = x.detach();
          x.attach_grad();
        }
        const std::vector<NDArray> y{cumprod(x, axis, reverse)}, by{x}, heads{v[1]};
        return autograd::grad(y, by, heads, {.create_graph = true})[0];
      };
      const NDArray x = random_array({2, 4, 3}, 8, -1, 1, float64), head = random_array({2, 4, 3}, 9, -1, 1, float64);
      CHECK(test::gradient_differences(summed, {x}) == "");
      CHECK(test::gradient_differences(product, {x}) == "");
      CHECK(test::gradient_differences(twice, {x, head}) == "");
      for (const double hole : {0.0, 0.4}) {  // one zero a row and more
        const NDArray holed = where(abs(x) < 0.2 + hole, zeros_like(x), x);
        CHECK(test::gradient_differences(product, {holed}) == "");
        CHECK(test::gradient_differences(twice, {holed, head}) == "");
      }
      const auto steps = [=](const auto& v) { return linear_recurrence(v[0], v[1], axis, reverse); };
      CHECK(test::gradient_differences(steps, {x, head}) == "");
      CHECK(test::gradient_differences([=](const auto& v) { return cummax(v[0], axis).values; }, {x}) == "");
      CHECK(test::gradient_differences([=](const auto& v) { return cummin(v[0], axis).values; }, {x}) == "");
    }
  }
  CHECK(
      test::gradient_differences(
          [](const auto& v) { return diff(v[0], 2, 0); }, {random_array({5, 2}, 8, -1, 1, float64)}) == "");
  NDArray x = array({2.0, 0.0, 3.0, 0.0, 5.0});
  x.attach_grad();
  {
    const autograd::RecordScope record;
    sum(cumprod(x, 0)).backward();
  }
  CHECK(x.grad().to_vector<double>() == std::vector<double>{1, 8, 0, 0, 0});  // 2 + 2 * 3
}

TEST_CASE(
    "The gradient of the largest so far goes to the last of equals, however long it stays", "[operator][scan][gpu]") {
  for (const Device device : devices()) {
    for (const Index n : {5, 3000, 40000}) {
      NDArray x = concat({full({1}, 3), full({n - 1}, 2)}).to(device).detach();
      x.attach_grad();
      {
        const autograd::RecordScope record;
        cummax(x, 0).values.backward();
      }
      const std::vector<double> dx = x.grad().to_vector<double>();
      CHECK((dx[0] == static_cast<double>(n) && dx[1] == 0 && dx.back() == 0));
      NDArray same = full({2, n}, 2, {.device = device}).detach();
      same.attach_grad();
      {
        const autograd::RecordScope record;
        cummin(same, 1).values.backward();
      }
      CHECK(differences(same.grad(), ones({2, n})) == "");
    }
  }
}

TEST_CASE("What is taken at places that stand side by side gives back sums of heads", "[operator][scan][gpu]") {
  const Operator& op = *find_operator("take_places");
  const Attributes runs = parse_attributes(op, "axis=1, runs=true");
  for (const Device device : devices()) {
    NDArray x = random_array({2, 5}, 3).to(device).detach();
    const NDArray places = array<Index>({0, 0, 1, 3, 3, 2, 2, 2, 2, 4}, {2, 5}).to(device);
    x.attach_grad();
    {
      const autograd::RecordScope record;
      invoke_one(op, {x, places}, runs, {}).backward(arange(1, 11, 1, {.device = device}).reshape({2, 5}));
    }
    CHECK(x.grad().to_vector<double>() == std::vector<double>{3, 3, 0, 9, 0, 0, 0, 30, 0, 10});
  }
}

TEST_CASE("Places by name that the axis does not have are IndexErrors", "[operator][scan][gpu][errors]") {
  for (const Device device : devices()) {
    for (const Index bad : {Index{3}, Index{-1}, std::numeric_limits<Index>::max()}) {
      const NDArray places = array<Index>({0, bad, bad}).to(device), dy = ones({3}, {.device = device});
      const auto call = [&](const char* name, const std::vector<NDArray>& inputs) {
        const Operator& op = *find_operator(name);
        invoke(op, inputs, parse_attributes(op, ""), {})[0].wait_to_read();
      };
      CHECK_THROWS_AS(call("add_runs", {places, dy}), IndexError);
      CHECK_THROWS_WITH(
          call("add_runs", {places, dy}), test::contains("add_runs") && test::contains(std::to_string(bad)));
      CHECK_THROWS_AS(call("take_places", {dy, places}), IndexError);
      CHECK_THROWS_AS(call("put_places", {places, dy, dy}), IndexError);
    }
  }
  const Operator& take = *find_operator("take_places");
  CHECK_THROWS_AS(invoke_one(take, {ones({2, 3}), ones({2, 3})}, parse_attributes(take, ""), {}), DTypeError);
  const NDArray wide = zeros({2, 4}, {.dtype = int32});
  CHECK_THROWS_AS(invoke_one(take, {ones({2, 3}), wide}, parse_attributes(take, "axis=0"), {}), ShapeError);
}

TEST_CASE("Scans give the same bits with any number of workers, and as a graph", "[operator][scan]") {
  const auto scans = [](const Arrays& in) -> Arrays {
    return {
        cumsum(in[0], 1),
        cumprod(in[0] * 0.01 + 1, 0, true),
        cummax(in[0], 1).indices,
        diff(in[0], 1, 0),
        linear_recurrence(in[0], in[0], 0)};
  };
  std::vector<std::vector<float>> first;
  for (const int workers : {1, 2, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    for (const Shape& shape : {Shape{2, 100000}, Shape{70000, 3}}) {
      const NDArray x = random_array(shape, 4);
      const Arrays by_hand = scans({x});
      graph::Tracer tracer;
      const NDArray input = tracer.input({shape, float32, cpu()});
      const Arrays traced = graph::evaluate(tracer.trace([&] { return scans({input}); }), std::vector{x});
      for (std::size_t i = 0; i < by_hand.size(); ++i) {
        const std::vector<float> values = by_hand[i].to_vector<float>();
        CHECK(traced[i].to_vector<float>() == values);
        const std::size_t at = i + (shape[0] == 2 ? 0 : by_hand.size());
        if (workers == 1)
          first.push_back(values);
        else
          CHECK(first[at] == values);
      }
    }
    engine.wait_all();
  }
}
