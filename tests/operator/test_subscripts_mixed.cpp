// a[{..}] with index arrays and masks beside ranges, entries and new axes, against plain loops: subscripts made at
// random are read, written and added to, with gradients, by hand and as graphs.
#include <cstdint>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/operator/subscript_reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Doubles = std::vector<double>;

/// Whole numbers, different ones, of an array that lies in one of five ways; `writable`: of those without strides of 0.
NDArray lying(SubscriptMaker& maker, const Shape& shape, bool writable, Device device) {
  NDArray a = arange(1, static_cast<double>(shape.size()) + 1, 1, {.dtype = float64}).reshape(shape).to(device);
  const int last = shape.ndim() - 1;
  switch (maker.number(0, writable ? 4 : 5)) {
    case 1:
      return a.transpose().copy().transpose();
    case 2: {  // every second one
      const NDArray both[] = {a, -a};
      return stack(both, last + 1).reshape(shape.size() == 0 ? shape : [&] {
        Shape twice = shape;
        twice[last] *= 2;
        return twice;
      }()).slice(last, 0, 2 * shape[last], shape.size() == 0 ? 1 : 2);
    }
    case 3:
      return a.slice(0, -1, INT64_MIN, -1).copy().slice(0, -1, INT64_MIN, -1);
    case 4:
      return a.slice(last, 0, std::min<std::int64_t>(1, shape[last])).broadcast_to(shape);
    default:
      return a;
  }
}

/// What stands at the places.
Doubles at(const Doubles& values, const Named& named) {
  Doubles taken;
  for (const std::int64_t place : named.places)
    taken.push_back(values[static_cast<std::size_t>(place)]);
  return taken;
}

Doubles written(Doubles values, const Named& named, const Doubles& with, bool adds) {
  for (std::size_t i = 0; i < named.places.size(); ++i) {
    double& value = values[static_cast<std::size_t>(named.places[i])];
    value = with[i] + (adds ? value : 0);
  }
  return values;
}

/// Values for what is named, some stretched, and the same one by one.
NDArray values_for(SubscriptMaker& maker, const Shape& shape, Device device) {
  Shape some;
  for (int axis = static_cast<int>(maker.number(0, shape.ndim() + 1)) / 2; axis < shape.ndim(); ++axis)
    some.push_back(maker.chance(20) ? 1 : shape[axis]);
  return (random_array(some, static_cast<std::uint64_t>(maker.number(1, 1000)), -9, 9, int32))
      .astype(float64)
      .to(device);
}

std::string text_of(const Items& items) {
  std::string text;
  const auto bound = [](std::optional<std::int64_t> at) { return at ? std::to_string(*at) : ""; };
  for (const Item& item : items) {
    text += text.empty() ? "" : ", ";
    if (item.kind == Item::Kind::entry)
      text += std::to_string(item.entry);
    else if (item.kind == Item::Kind::range)
      text += bound(item.begin) + ":" + bound(item.end) + ":" + std::to_string(item.step);
    else if (item.kind == Item::Kind::rest || item.kind == Item::Kind::new_axis)
      text += item.kind == Item::Kind::rest ? "..." : "None";
    else
      text += (item.kind == Item::Kind::mask ? "mask" : "numbers") + to_string(item.shape);
  }
  return text;
}

/// Calls f(maker, shape, subscripts, what they name) for so many that are made at random.
template <class F>
void for_subscripts(int count, std::uint64_t seed, bool masks, const F& f) {
  SubscriptMaker maker(seed);
  for (int i = 0; i < count; ++i) {
    const Shape shape = maker.shape();
    const Items items = maker.items(shape, masks);
    CAPTURE(i, shape, text_of(items));
    f(maker, shape, items, named_by(items, shape));
  }
}

/// Reads, writes and adds, of one array on `device`.
void check_values(SubscriptMaker& maker, const Shape& shape, const Items& items, const Named& named, Device device) {
  const NDArray a = lying(maker, shape, false, device), b = lying(maker, shape, true, device);
  const Doubles values = a.to_vector<double>(), before = b.to_vector<double>();
  const NDArray v = values_for(maker, named.shape, device);
  const Doubles with = v.broadcast_to(named.shape).to_vector<double>();
  with_subscripts(items, device, maker, [&](std::initializer_list<Subscript> at) {
    const NDArray taken = a[at];
    CHECK(taken.shape() == named.shape);
    CHECK(taken.to_vector<double>() == ::at(values, named));
    CHECK(index_update(a, at, v).to_vector<double>() == written(values, named, with, false));
    CHECK(index_add(a, at, v).to_vector<double>() == written(values, named, with, true));
    CHECK(a.to_vector<double>() == values);
    b.assign(at, v);
    CHECK(b.to_vector<double>() == written(before, named, with, false));
    b.add_at(at, v);
    CHECK(b.to_vector<double>() == written(written(before, named, with, false), named, with, true));
    b.assign(at, -3);
    CHECK(b.to_vector<double>() == written(before, named, Doubles(named.places.size(), -3), false));
  });
}

/// A variable, and what recording a program of it gives: its gradient and the values', for heads of `weights`.
struct Pulled {
  Doubles x, v;
};
template <class F>
Pulled pulled(const NDArray& a, const NDArray& v, const F& f) {
  NDArray x = a.copy(), values = v.copy();
  x.attach_grad();
  values.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = f(x, values);
  }
  y.backward(arange(1, static_cast<double>(y.size()) + 1, 1, {.dtype = float64}).reshape(y.shape()).to(a.device()));
  return {x.grad().to_vector<double>(), values.grad().to_vector<double>()};
}

/// What a graph gives when it has been to a file and back.
Arrays run_from_file(const graph::Graph& traced, Arrays inputs) {
  std::vector<NDArray> constants;
  graph::GraphFile file{.graph = with_constants_as_inputs(traced, constants)};
  for (std::size_t i = 0; i < inputs.size(); ++i)
    file.inputs.push_back({message("in", i)});
  for (std::size_t i = 0; i < constants.size(); ++i)
    file.parameters.push_back({message("constant.", i)});
  for (std::size_t i = 0; i < traced.outputs.size(); ++i)
    file.outputs.push_back(message("out", i));
  inputs.insert(inputs.end(), constants.begin(), constants.end());
  std::vector<ArraySpec> specs;
  for (const NDArray& input : inputs)
    specs.push_back({input.shape(), input.dtype(), input.device()});
  return evaluate(with_inputs(graph::from_json(to_json(file), "a.json").graph, specs), inputs);
}

Doubles counted(std::size_t n) {
  Doubles numbers;
  while (numbers.size() < n)
    numbers.push_back(static_cast<double>(numbers.size() + 1));
  return numbers;
}

/// Gradients of what is read, written and added, by hand: heads count the elements from 1.
void check_gradients(SubscriptMaker& maker, const Shape& shape, const Items& items, const Named& named, Device device) {
  const NDArray a = lying(maker, shape, true, device), v = zeros(named.shape, {.dtype = float64, .device = device});
  const std::size_t all = static_cast<std::size_t>(shape.size()), some = named.places.size();
  const Doubles none(all), heads = counted(all);
  std::vector<std::size_t> last(all, some);
  for (std::size_t i = 0; i < some; ++i)
    last[static_cast<std::size_t>(named.places[i])] = i;
  Doubles stayed = at(heads, named);
  for (std::size_t i = 0; i < some; ++i)
    stayed[i] = last[static_cast<std::size_t>(named.places[i])] == i ? stayed[i] : 0;
  with_subscripts(items, device, maker, [&](std::initializer_list<Subscript> at) {
    CHECK(pulled(a, v, [&](const NDArray& x, const NDArray&) {
            return x[at];
          }).x == written(none, named, counted(some), true));
    const auto assigned = pulled(a, v, [&](const NDArray& x, const NDArray& values) {
      const NDArray y = x * 1;
      y.assign(at, values);
      return y;
    });
    CHECK(assigned.x == written(heads, named, Doubles(some), false));
    CHECK(assigned.v == stayed);
    const auto added = pulled(a, v, [&](const NDArray& x, const NDArray& values) {
      const NDArray y = x * 1;
      y.add_at(at, values);
      return y;
    });
    CHECK(added.x == heads);
    CHECK(added.v == ::at(heads, named));
    const auto made = [&](const NDArray& x, const NDArray&) {
      return index_update(x, at, ones({}, {.dtype = float64, .device = device}));
    };
    CHECK(pulled(a, v, made).x == assigned.x);
  });
}

}  // namespace

TEST_CASE("Subscripts made at random name what loops by NumPy's rules say", "[subscripts]") {
  int arrays = 0, empty = 0, apart = 0;
  for_subscripts(700, 1, true, [&](SubscriptMaker& maker, const Shape& shape, const Items& items, const Named& named) {
    check_values(maker, shape, items, named, cpu());
    arrays += std::any_of(items.begin(), items.end(), [](const Item& item) { return item.is_array(); });
    empty += named.places.empty();
    apart += sluice::test::case_parts::meaning_of(items, shape).apart;
  });
  CHECK(arrays > 300);  // what is made is worth a test
  CHECK(empty > 50);
  CHECK(apart > 50);
}

TEST_CASE("Gradients of subscripts made at random are those of loops", "[subscripts]") {
  for_subscripts(400, 2, true, [](SubscriptMaker& maker, const Shape& shape, const Items& items, const Named& named) {
    check_gradients(maker, shape, items, named, cpu());
  });
}

TEST_CASE("Subscripts made at random on a GPU name what loops say", "[subscripts][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for_subscripts(120, 3, true, [](SubscriptMaker& maker, const Shape& shape, const Items& items, const Named& named) {
    check_values(maker, shape, items, named, gpu());
    check_gradients(maker, shape, items, named, gpu());
  });
}

TEST_CASE("Subscripts made at random as graphs, and from files, give what they give by hand", "[subscripts][graph]") {
  for_subscripts(150, 4, false, [](SubscriptMaker& maker, const Shape& shape, const Items& items, const Named& named) {
    const NDArray a = lying(maker, shape, true, cpu()).contiguous(), v = values_for(maker, named.shape, cpu());
    with_subscripts(items, cpu(), maker, [&](std::initializer_list<Subscript> at) {
      const auto program = [&](const NDArray& x, const NDArray& values) {
        const NDArray y = x * 2;
        y.assign(at, values);
        y.add_at(at, values * 3);
        return Arrays{index_add(y, at, y[at]), index_update(x, at, values)};
      };
      graph::Tracer tracer;
      const NDArray x = tracer.input({shape, float64, cpu()}), values = tracer.input({v.shape(), float64, cpu()});
      const graph::Graph traced = tracer.trace([&] { return program(x, values); });
      graph::Plan plan(traced);
      const Arrays want = program(a, v), got = plan.run(Arrays{a, v}), read = run_from_file(traced, {a, v});
      for (std::size_t i = 0; i < want.size(); ++i) {
        CHECK(got[i].to_vector<double>() == want[i].to_vector<double>());
        CHECK(read[i].to_vector<double>() == want[i].to_vector<double>());
      }
    });
  });
}

TEST_CASE("Index arrays beside ranges move elements of every type", "[subscripts]") {
  const NDArray rows = array<int>({2, 0, 2}), columns = array<std::int64_t>({-1, 1}, {2, 1});
  for (const DType dtype : all_dtypes()) {
    CAPTURE(dtype);
    const NDArray a = random_array({3, 4, 3}, 1, 0, 9, dtype);
    CHECK(differences(a[{rows, {1, 3}, columns}], take(a.slice(1, 1, 3).transpose({0, 2, 1}), {rows, columns})) == "");
    const NDArray b = a.copy(), v = random_array({2, 3, 2}, 2, 0, 9, dtype);
    b.assign({rows, {{}, {}, 3}, columns}, v.astype(float64));
    CHECK(b[{2, {{}, {}, 3}, 2}].to_vector<double>() == v[{0, 2}].to_vector<double>());
    CHECK(b[{1}].to_vector<double>() == a[{1}].to_vector<double>());
    if (dtype == bool_)
      continue;
    const NDArray ones_there = ones({2, 3, 2}, {.dtype = dtype});  // of which two meet
    const NDArray sums = index_add(a, {rows, {1, 3}, columns}, ones_there);
    b.assign(a).add_at({rows, {1, 3}, columns}, ones_there);
    CHECK(differences(b, sums) == "");
    CHECK(sums.dtype() == dtype);
    Doubles added = a.to_vector<double>();
    for (const std::int64_t row : {2, 0, 2}) {
      for (const std::int64_t place : {1, 2}) {
        for (const std::int64_t column : {2, 1})
          added[static_cast<std::size_t>(row * 12 + place * 3 + column)] += 1;
      }
    }
    CHECK(differences(sums, array(added, {3, 4, 3}), tolerance_of(dtype)) == "");
  }
}

TEST_CASE("A mask without axes names a new one, and what is written with a mask is where it is true", "[subscripts]") {
  const NDArray a = arange(0, 6, 1).reshape({2, 3});
  CHECK(a[{full({}, 1, {.dtype = bool_})}].shape() == Shape{1, 2, 3});
  CHECK(a[{full({}, 0, {.dtype = bool_}), {}, 0}].shape() == Shape{0, 2});
  a.assign({a > 2}, -1);
  CHECK(a.to_vector<float>() == std::vector<float>{0, 1, 2, -1, -1, -1});
  a.assign({{}, array<bool>({true, false, true})}, a[{{}, {1, 3}}]);  // values of what is written
  CHECK(a.to_vector<float>() == std::vector<float>{1, 1, 2, -1, -1, -1});
  const NDArray order = array<std::int64_t>({2, 0, 1});
  order.assign({order}, order);  // which is what it says and where
  CHECK(order.to_vector<std::int64_t>() == std::vector<std::int64_t>{0, 1, 2});
}

TEST_CASE("Second gradients pass through what is written with index arrays", "[subscripts]") {
  const NDArray x = random_array({3, 4, 2}, 1, -1, 1, float64), v = random_array({3, 2, 2}, 2, -1, 1, float64);
  const NDArray rows = array<int>({2, 0, 2}), columns = array<int>({0, 1, 0});
  const auto f = [&](const auto& in) {
    NDArray y = in[0] * in[0];
    y.assign({rows, {1, 3}}, in[1] * in[1]);
    y.add_at({rows, k_rest, columns}, in[1].reshape({3, 4}));
    return y[{columns, {{}, {}, 2}, rows.slice(0, 1, 2)}] * in[0][{1, 2, 0}];
  };
  CHECK(gradient_differences(f, {x, v}) == "");
}

TEST_CASE("Subscripts with index arrays that do not fit are typed errors", "[subscripts]") {
  const NDArray a = zeros({2, 3, 4}), i = array<int>({0, 1});
  CHECK_THROWS_AS((a[{i, i, i, i}]), IndexError);
  CHECK_THROWS_AS((a[{i, {}, 0, {}}]), IndexError);
  CHECK_THROWS_WITH((a[{ones({2, 3, 4, 1}, {.dtype = bool_})}]), contains("4 axes") && contains("(2, 3, 4)"));
  CHECK_THROWS_AS((a[{i, array<int>({0, 1, 2})}]), ShapeError);
  CHECK_THROWS_AS((a[{ones({2, 4}, {.dtype = bool_}), i}]), ShapeError);
  CHECK_THROWS_WITH(
      (a[{{}, ones({2}, {.dtype = bool_})}]), contains("(2,)") && contains("axis 1") && contains("(2, 3, 4)"));
  CHECK_THROWS_AS((a[{zeros({2}), 0}]), DTypeError);
  CHECK_THROWS_AS((a[{i, NDArray()}]), ValueError);
  CHECK_THROWS_AS((a[{i, 3}]), IndexError);
  CHECK_THROWS_AS((a[{i, {0, 2, 0}}]), ValueError);
  CHECK_THROWS_AS((a[{k_rest, i, k_rest}]), IndexError);
  CHECK_THROWS_AS((zeros({0, 2})[{i}]), ValueError);
  CHECK_THROWS_AS(a.assign({i, {0, 2}}, zeros({3, 4})), ShapeError);
  CHECK_THROWS_AS(a.assign({i, {0, 2}}, NDArray()), ValueError);
  CHECK_THROWS_AS(a.add_at({i}, zeros({3, 3, 4})), ShapeError);
  CHECK_THROWS_AS(zeros({1, 3}).broadcast_to({2, 3}).assign({i, 0}, 1), ValueError);
  const Operator& op = *find_operator("index_assign");
  const NDArray numbers = zeros({1, 2}, {.dtype = int64}), values = zeros({2, 3, 4});
  const auto call = [&](const char* text) {
    return invoke(op, std::vector<NDArray>{a, values, numbers}, parse_attributes(op, text), SourceLocation::current());
  };
  CHECK(call("order=(0, 1, 2)").size() == 1);
  CHECK_THROWS_AS(call("order=(0, 1)"), ValueError);
  CHECK_THROWS_AS(call("order=(0, 1, 1)"), ValueError);
  CHECK_THROWS_AS(call("order=(0, 1, 2, 2)"), ValueError);
  CHECK_THROWS_AS(call("order=(0, 1, 3)"), ValueError);
  CHECK_THROWS_AS(call("order=(0, 1, 2), axis=3"), IndexError);
  CHECK_THROWS_AS(call("order=(0, 1, 2), begin=(1,)"), ValueError);
}

TEST_CASE("An index outside its axis beside ranges is an IndexError at the wait", "[subscripts]") {
  const NDArray a = zeros({2, 3, 4}), i = array<int>({0, 3});
  CHECK_THROWS_AS((a[{{}, i, {1, 3}}].wait_to_read()), IndexError);
  CHECK_THROWS_WITH((a[{{}, i, {1, 3}}].to_vector<float>()), contains("index 3") && contains("size 3"));
  CHECK_THROWS_AS((a[{i, {}, i}].wait_to_read()), IndexError);
  CHECK_THROWS_AS(index_update(a, {{}, i, {1, 3}}, ones({})).wait_to_read(), IndexError);
  CHECK_THROWS_AS(index_add(a, {{}, array<int>({-4, 0}), {1, 3}}, ones({})).wait_to_read(), IndexError);
  const NDArray b = a.copy();
  b.assign({{}, i, 0}, 1);
  CHECK_THROWS_AS(b.wait_to_read(), IndexError);
}

TEST_CASE("Errors of subscripts name the line where they stand", "[subscripts]") {
  const NDArray a = zeros({2, 3, 4}), i = array<int>({0, 3});
  const auto here = [](int line) { return contains("test_subscripts_mixed.cpp:" + std::to_string(line)); };
  CHECK_THROWS_WITH((a[{{}, i}].wait_to_read()), here(__LINE__));
  CHECK_THROWS_WITH((a[{k_new_axis, {1, 2}, i}].wait_to_read()), here(__LINE__));
  CHECK_THROWS_WITH((a[{2, k_rest}]), here(__LINE__));
  CHECK_THROWS_WITH((a[{{{}, 1}, 3, {}}]), here(__LINE__));
  CHECK_THROWS_WITH((a[{0, 0, 0, {{}, {}, -1}}]), here(__LINE__));
  CHECK_THROWS_WITH((a[{i, NDArray()}]), here(__LINE__));
}

TEST_CASE("An index outside its axis beside ranges on a GPU is an IndexError at the wait", "[subscripts][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray a = zeros({2, 3, 4}, {.device = gpu()}), i = array<int>({0, 3}).to(gpu());
  CHECK_THROWS_AS((a[{{}, i, {1, 3}}].wait_to_read()), IndexError);
  CHECK_THROWS_AS(index_update(a, {{}, i, {1, 3}}, ones({}, {.device = gpu()})).wait_to_read(), IndexError);
  CHECK_THROWS_AS((a[{i.to(cpu()), {1, 3}}]), DeviceError);
}

TEST_CASE("What a trace cannot know of a mask is a ValueError", "[subscripts][graph]") {
  graph::Tracer tracer;
  const NDArray x = tracer.input({{2, 3}, float32, cpu()});
  CHECK_THROWS_AS(tracer.trace([&] { return Arrays{x[{x > 0, {}}]}; }), IndexError);
  CHECK_THROWS_AS(tracer.trace([&] { return Arrays{x[{x > 0}]}; }), ValueError);
}
