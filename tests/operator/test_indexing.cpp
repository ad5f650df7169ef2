// Entries taken, replaced and added to by arrays of numbers, against plain loops over every element.
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>
#include <sluice/operator/gather/indexing.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using Places = std::vector<std::int64_t>;

std::int64_t resolve(std::int64_t index, std::int64_t n) {
  return index < 0 ? index + n : index;
}

/// For every element of what is taken where it stands in x, row by row.
struct Named {
  Shape shape;
  Places from;
};

// x[a, b] from `axis` on, of index arrays of one shape.
Named named_by(const Shape& x, const std::vector<NDArray>& indices, int axis) {
  const int count = static_cast<int>(indices.size());
  Shape shape(std::span(x.begin(), static_cast<std::size_t>(axis)));
  for (int i = 0; i < indices[0].ndim(); ++i)
    shape.push_back(indices[0].shape()[i]);
  for (int i = axis + count; i < x.ndim(); ++i)
    shape.push_back(x[i]);
  std::vector<Places> lists;
  for (const NDArray& each : indices)
    lists.push_back(each.to_vector<std::int64_t>());
  Named named{shape, {}};
  const int width = indices[0].ndim();
  for (std::int64_t i = 0; i < shape.size(); ++i) {
    const Places at = unravel(shape, i);
    const Places inner(at.begin() + axis, at.begin() + axis + width);
    const auto position = static_cast<std::size_t>(ravel(indices[0].shape(), inner));
    Places source(at.begin(), at.begin() + axis);
    for (int k = 0; k < count; ++k)
      source.push_back(resolve(lists[static_cast<std::size_t>(k)][position], x[axis + k]));
    source.insert(source.end(), at.begin() + axis + width, at.end());
    named.from.push_back(ravel(x, source));
  }
  return named;
}

Named named_along(const Shape& x, const NDArray& indices, int axis) {
  Named named{indices.shape(), {}};
  const auto list = indices.to_vector<std::int64_t>();
  for (std::size_t i = 0; i < list.size(); ++i) {
    Places at = unravel(indices.shape(), static_cast<std::int64_t>(i));
    at[static_cast<std::size_t>(axis)] = resolve(list[i], x[axis]);
    named.from.push_back(ravel(x, at));
  }
  return named;
}

NDArray taken(const NDArray& x, const Named& named) {
  const Dense from(x);
  Dense to(named.shape, 0);
  for (std::size_t i = 0; i < named.from.size(); ++i)
    to.values[i] = from.values[static_cast<std::size_t>(named.from[i])];
  return to.array();
}

NDArray put_there(const NDArray& x, const Named& named, const NDArray& values, bool adds) {
  Dense to(x);
  const Dense from(values);
  for (std::size_t i = 0; i < named.from.size(); ++i) {
    double& at = to.values[static_cast<std::size_t>(named.from[i])];
    at = adds ? at + from.values[i] : from.values[i];
  }
  return to.array();
}

// What the functions give for x of that type on `device`, compared.
void check_all_kinds(DType dtype, Device device) {
  const auto on = [&](const NDArray& array) { return array.to(device); };
  const auto back = [](const NDArray& array) { return array.to(cpu()); };
  const double least = is_unsigned(dtype) ? 0 : -2;  // sums of few stay within every type
  const NDArray x = random_array({3, 4, 5}, 1, 4 * least, 9, dtype);
  for (const DType type : {uint8, int8, int32, int64, int16, uint16, uint32, uint64}) {
    const double low = is_unsigned(type) ? 0 : -3;
    for (int axis : {0, 1}) {
      CAPTURE(dtype, type, axis);
      const std::vector<NDArray> numbers = {
          random_array({2, 7}, 2, low, 2, type), random_array({2, 7}, 3, low, 3, type)};
      const std::vector<NDArray> there = {on(numbers[0]), on(numbers[1])};
      const Named named = named_by(x.shape(), numbers, axis);
      const NDArray values = random_array(named.shape, 4, least, 2, dtype);
      CHECK(differences(back(take(on(x), there, axis)), taken(x, named)) == "");
      CHECK(differences(back(index_update(on(x), there, on(values), axis)), put_there(x, named, values, false)) == "");
      if (dtype != DType::bool_) {
        const Tolerance sums{tolerance_of(dtype).relative * 4, tolerance_of(dtype).absolute * 8};
        CHECK(
            differences(back(index_add(on(x), there, on(values), axis)), put_there(x, named, values, true), sums) ==
            "");
      }
    }
    for (int axis : {0, 1, 2}) {
      CAPTURE(dtype, type, axis);
      Shape shape = x.shape();
      shape[axis] = 6;
      const NDArray numbers = random_array(shape, 5, low, 2, type), values = random_array(shape, 6, least, 2, dtype);
      const Named named = named_along(x.shape(), numbers, axis);
      CHECK(differences(back(take_along_axis(on(x), on(numbers), axis)), taken(x, named)) == "");
      CHECK(
          differences(back(put_along_axis(on(x), on(numbers), on(values), axis)), put_there(x, named, values, false)) ==
          "");
      if (dtype != DType::bool_) {
        const Tolerance sums{tolerance_of(dtype).relative * 4, tolerance_of(dtype).absolute * 8};
        CHECK(
            differences(
                back(add_along_axis(on(x), on(numbers), on(values), axis)), put_there(x, named, values, true), sums) ==
            "");
      }
    }
  }
}

}  // namespace

TEST_CASE("Index arrays take, replace and add what plain loops do, for every type", "[indexing]") {
  for (const DType dtype : all_dtypes())
    check_all_kinds(dtype, cpu());
}

TEST_CASE("Index arrays take, replace and add on a GPU what plain loops do", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const DType dtype : all_dtypes())
    check_all_kinds(dtype, gpu());
}

TEST_CASE("Rows of all widths are taken and replaced on a GPU as on a CPU", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const std::vector<NDArray> numbers = {array<int>({1, 0, 2, 1, 1}), array<int>({0, 3, -1, 0, 2})};
  const std::vector<NDArray> there = {numbers[0].to(gpu()), numbers[1].to(gpu())};
  for (const std::int64_t width : {1, 3, 4, 31, 64, 300, 1100, 1501}) {
    for (const DType dtype : {uint8, float16, float32, float64}) {
      CAPTURE(width, dtype);
      const NDArray x = random_array({3, 4, width}, 1, -9, 9, dtype),
                    values = random_array({5, width}, 2, -9, 9, dtype);
      CHECK(differences(take(x.to(gpu()), there).to(cpu()), take(x, numbers)) == "");
      const NDArray put = index_update(x.to(gpu()), there, values.to(gpu()));
      CHECK(differences(put.to(cpu()), index_update(x, numbers, values)) == "");
    }
  }
}

TEST_CASE("Booleans are added as numpy.add.at adds them: true where one is", "[indexing]") {
  const NDArray x = array<bool>({false, false, true}), values = array<bool>({true, true, false, false});
  const NDArray sums = index_add(x, {array<int>({0, 0, 2, 1})}, values);
  CHECK(sums.dtype() == bool_);
  CHECK(sums.to_vector<int>() == std::vector<int>{1, 0, 1});
  // Whole numbers wrap as their type does.
  const NDArray small = index_add(array<std::int8_t>({100}), {array<int>({0, 0})}, array<std::int8_t>({100, 57}));
  CHECK(small.to_vector<int>() == std::vector<int>{1});
  const std::int64_t large = std::int64_t{1} << 53;
  const NDArray wide = index_add(array<std::int64_t>({large}), {array<int>({0, 0})}, array<std::int64_t>({1, 2}));
  CHECK(wide.to_vector<std::int64_t>() == Places{large + 3});
}

TEST_CASE("Index arrays are broadcast among themselves, values to what is taken", "[indexing]") {
  const NDArray x = random_array({3, 4, 2}, 1);
  const NDArray rows = array<int>({2, 0}, {2, 1}), columns = array<std::int64_t>({1, 3, 0});
  const std::vector<NDArray> wide = {
      rows.broadcast_to({2, 3}).copy().astype(int64), columns.broadcast_to({2, 3}).copy()};
  const Named named = named_by(x.shape(), wide, 0);
  CHECK(differences(take(x, {rows, columns}), taken(x, named)) == "");
  const NDArray pair = array<float>({7, 8}), one = full({}, 5);
  CHECK(
      differences(index_update(x, {rows, columns}, pair), put_there(x, named, pair.broadcast_to({2, 3, 2}), false)) ==
      "");
  CHECK(differences(index_add(x, {rows, columns}, one), put_there(x, named, one.broadcast_to({2, 3, 2}), true)) == "");
  // numpy.take_along_axis broadcasts what is beside the axis.
  const NDArray first = array<int>({2}, {1, 1, 1});
  CHECK(differences(take_along_axis(x, first, 0), x.slice(0, 2, 3)) == "");
  CHECK(
      differences(
          take_along_axis(x.slice(2, 0, 1), array<int>({3, 1}, {1, 1, 2}), 1).slice(2, 1, 2),
          x.slice(1, 1, 2).slice(2, 0, 1)) == "");
}

TEST_CASE("gather_nd and scatter_nd go by columns of coordinates", "[indexing]") {
  const NDArray x = random_array({3, 4, 2}, 1);
  const NDArray at = array<int>({0, 2, 1, 3, -1, 0}, {2, 3});
  const NDArray rows = gather_nd(x, at);
  CHECK(differences(rows, take(x, {at[0], at[1]})) == "");
  const NDArray spread = scatter_nd(rows, at, {3, 4, 2});
  CHECK(differences(gather_nd(spread, at), rows) == "");
  CHECK(differences(sum(spread), sum(rows), {1e-5, 1e-5}) == "");
  CHECK(gather_nd(x, array<int>({1}, {1})).shape() == Shape{4, 2});
  CHECK(gather_nd(x, array<int>({1, 2, 1}, {3})).ndim() == 0);
  CHECK_THROWS_AS(gather_nd(x, zeros({4, 2}, {.dtype = int32})), ShapeError);
  CHECK_THROWS_AS(gather_nd(x, zeros({0, 2}, {.dtype = int32})), ShapeError);
  CHECK_THROWS_AS(gather_nd(x, full({}, 1, {.dtype = int32})), ShapeError);
  CHECK_THROWS_AS(scatter_nd(rows, at, {3, 4, 3}), ShapeError);
}

TEST_CASE("Of several values of one entry the last one stays, on any number of workers", "[indexing]") {
  std::vector<std::vector<float>> results;
  for (const int workers : {1, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray numbers = random_array({5000}, 1, 0, 99, int32), values = random_array({5000}, 2);
    results.push_back(index_update(zeros({100}), {numbers}, values).to_vector<float>());
    results.push_back(index_add(zeros({100}), {numbers}, values).to_vector<float>());
    const NDArray along = random_array({40, 300}, 3, 0, 9, int32), rows = random_array({40, 300}, 4);
    results.push_back(add_along_axis(zeros({40, 10}), along, rows, 1).to_vector<float>());
  }
  for (const std::size_t i : {0, 1, 2})
    CHECK(results[i] == results[3 + i]);
  CHECK(
      index_update(zeros({2}), {array<int>({1, 1, -1})}, array<float>({3, 4, 5})).to_vector<float>() ==
      std::vector<float>{0, 5});
}

TEST_CASE("Of many values of one entry the last one stays on a GPU, and sums have the same bits", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray numbers = random_array({20000}, 1, -30, 29, int32), other = random_array({20000}, 2, 0, 2, int32);
  const std::vector<NDArray> pair = {numbers, other}, there = {numbers.to(gpu()), other.to(gpu())};
  for (const Shape& rows : {Shape{20000}, Shape{20000, 9}}) {
    CAPTURE(rows);
    Shape whole = rows;
    whole[0] = 3;
    whole.insert(0, 30);
    const NDArray x = random_array(whole, 3), values = random_array(rows, 4);
    const NDArray there_x = x.to(gpu()), there_values = values.to(gpu());
    const NDArray put = index_update(there_x, there, there_values);
    CHECK(put.to(cpu()).to_vector<float>() == index_update(x, pair, values).to_vector<float>());
    const NDArray sums = index_add(there_x, there, there_values).to(cpu());
    CHECK(differences(sums, index_add(x, pair, values), {1e-5, 1e-4}) == "");
    CHECK(index_add(there_x, there, there_values).to(cpu()).to_vector<float>() == sums.to_vector<float>());
  }
}

TEST_CASE("A number outside its axis on a GPU fails what it wrote alone", "[indexing][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = ones({3, 4}, {.device = gpu()}), good = array<int>({0, 1}, gpu()), bad = array<int>({0, 4}, gpu());
  const NDArray values = zeros({2}, {.device = gpu()}), column = array<int>({0, 1, 4}, gpu()).reshape({3, 1});
  const NDArray beside = x * 2;
  const std::vector<NDArray> failing = {
      take(x, {good, bad}),
      index_update(x, {good, bad}, values),
      index_add(x, {good, bad}, values),
      take_along_axis(x, column),
      put_along_axis(x, column, values.slice(0, 0, 1)),
      add_along_axis(x, column, values.slice(0, 0, 1)),
      embedding(bad, x, 0)};
  for (const NDArray& each : failing) {
    const NDArray made_of_it = each + 1;
    CHECK_THROWS_AS(made_of_it.wait_to_read(), IndexError);
    CHECK_THROWS_AS(each.wait_to_read(), IndexError);
  }
  CHECK(sum(beside).item<float>() == 24);
  CHECK(sum(index_update(x, {good, good}, values)).item<float>() == 10);
}

TEST_CASE("put writes places in all of the elements, compress and masks choose", "[indexing]") {
  const NDArray x = array<float>({0, 1, 2, 3, 4, 5}, {2, 3});
  CHECK(put(x, array<int>({5, 0}), array<int>({7, 8})).to_vector<float>() == std::vector<float>{8, 1, 2, 3, 4, 7});
  CHECK(
      put(x, array<int>({8}), full({}, 9), IndexMode::wrap).to_vector<float>() == std::vector<float>{0, 1, 9, 3, 4, 5});
  CHECK(put(x.transpose(), array<int>({1}), full({}, 9)).to_vector<float>() == std::vector<float>{0, 9, 1, 4, 2, 5});
  CHECK(compress(array<bool>({false, true}), x, 0).to_vector<float>() == std::vector<float>{3, 4, 5});
  CHECK(compress(array<int>({0, 2}), x).to_vector<float>() == std::vector<float>{1});
  CHECK(compress(array<bool>({false}), x, 1).shape() == Shape{2, 0});
  CHECK_THROWS_AS(compress(array<bool>({true, false, true}), x, 0).wait_to_read(), IndexError);
  CHECK_THROWS_AS(compress(x, x), ShapeError);
  const NDArray mask = array<bool>({true, false});
  CHECK(masked_fill(x, mask, 9).to_vector<float>() == std::vector<float>{9, 9, 9, 3, 4, 5});
  CHECK(masked_fill(x, x > 3, array<float>({6, 7, 8})).to_vector<float>() == std::vector<float>{0, 1, 2, 3, 7, 8});
  CHECK(masked_fill(x, full({}, true, {.dtype = bool_}), 1).to_vector<float>() == std::vector<float>(6, 1));
  const NDArray large = array<std::int64_t>({9007199254740993, 16777217, 5});
  const auto filled = masked_fill(large, array<bool>({false, false, true}), 2.5).to_vector<std::int64_t>();
  CHECK(filled == std::vector<std::int64_t>{9007199254740993, 16777217, 2});  // others keep their digits
  CHECK(masked_fill(mask, mask, 0.0).to_vector<int>() == std::vector<int>{0, 0});
  CHECK(masked_fill(mask, mask, 2).dtype() == bool_);
  CHECK_THROWS_WITH(masked_fill(x.astype(int8), mask, 300), sluice::test::contains("masked_fill: the number 300"));
  CHECK_THROWS_AS(masked_fill(x, x, 1), DTypeError);
  CHECK_THROWS_AS(masked_fill(x, array<bool>({true, false, true}), 1), ShapeError);
  CHECK_THROWS_AS(masked_fill(x, array<bool>({true, false, true}, {1, 3}), 1), ShapeError);
  CHECK_THROWS_AS(masked_fill(x, array<bool>({true}), 1), ShapeError);  // a mask is not broadcast
}

TEST_CASE("Numbers outside their axis are an IndexError at the wait, that names axis and operator", "[indexing]") {
  const NDArray x = zeros({2, 3});
  const NDArray good = array<int>({0, 1}), values = ones({2});
  for (const int bad : {3, -4}) {
    const NDArray late = take(x, {good, array<int>({0, bad})});
    CHECK_THROWS_AS(late.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(
        late.wait_to_read(),
        sluice::test::contains("take: index " + std::to_string(bad)) && sluice::test::contains("axis 1 with size 3"));
    CHECK_THROWS_AS(index_update(x, {good, array<int>({0, bad})}, values).wait_to_read(), IndexError);
    CHECK_THROWS_AS(index_add(x, {good, array<int>({0, bad})}, values).wait_to_read(), IndexError);
    CHECK_THROWS_AS(take_along_axis(x, array<int>({0, bad}, {2, 1})).wait_to_read(), IndexError);
    CHECK_THROWS_AS(put_along_axis(x, array<int>({0, bad}, {2, 1}), full({}, 1)).wait_to_read(), IndexError);
    const NDArray clipped = take(x, {good, array<int>({0, bad})}, 0, IndexMode::clip);
    clipped.wait_to_read();
  }
  CHECK_THROWS_AS(take(x, std::vector<NDArray>{}), ValueError);
  CHECK_THROWS_AS(take(x, {good, values}), DTypeError);
  CHECK_THROWS_AS(take(x, {good, array<int>({0, 1, 2})}), ShapeError);
  CHECK_THROWS_AS(take(x, {good, good, good}), ShapeError);
  CHECK_THROWS_AS(take(x, {good, good}, 1), ShapeError);
  CHECK_THROWS_AS(take(x, {good, good}, 2), IndexError);
  CHECK_THROWS_AS(take(zeros({2, 0}), {good, good}), ValueError);
  CHECK_THROWS_AS(index_update(x, {good}, zeros({3, 3})), ShapeError);
  CHECK_THROWS_AS(take_along_axis(x, good), ShapeError);
  CHECK_THROWS_AS(take_along_axis(x, zeros({3, 1}, {.dtype = int32})), ShapeError);
  CHECK_THROWS_AS(take_along_axis(zeros({2, 0}), zeros({2, 1}, {.dtype = int32})), ValueError);
  CHECK_THROWS_AS(take_along_axis(x, x), DTypeError);
}

TEST_CASE("Arrays of no elements and of no numbers are taken and replaced", "[indexing]") {
  const NDArray none = zeros({0}, {.dtype = int32}), x = random_array({2, 3}, 1);
  CHECK(take(x, {none, none}).shape() == Shape{0});
  CHECK(differences(index_update(x, {none, none}, zeros({0})), x) == "");
  CHECK(differences(index_add(x, {none}, zeros({0, 3})), x) == "");
  CHECK(take_along_axis(x, zeros({2, 0}, {.dtype = int32})).shape() == Shape{2, 0});
  CHECK(take(zeros({0, 3}), {none}).shape() == Shape{0, 3});
  CHECK(take(zeros({2, 3, 0}), {array<int>({1}), array<int>({2})}).shape() == Shape{1, 0});
  CHECK(index_update(zeros({2, 0}), {array<int>({1})}, zeros({1, 0})).shape() == Shape{2, 0});
}

TEST_CASE("Gradients of indexing agree with finite differences", "[indexing]") {
  const NDArray x = random_array({3, 4, 2}, 1, -1, 1, float64);
  const std::vector<NDArray> at = {array<int>({2, 0, 2, 2}), array<int>({1, 1, -3, 3})};  // one entry twice
  const NDArray values = random_array({4, 2}, 2, -1, 1, float64), along = array<int>({1, 1, 0, -1}, {2, 2, 1});
  CHECK(gradient_differences([&](const auto& in) { return take(in[0], at); }, {x}) == "");
  const auto update = [&](const auto& in) { return index_update(in[0], at, in[1]); };
  CHECK(gradient_differences(update, {x, values}) == "");
  CHECK(gradient_differences([&](const auto& in) { return index_add(in[0], at, in[1]); }, {x, values}) == "");
  CHECK(
      gradient_differences(
          [&](const auto& in) { return index_update(in[0], {at[0]}, in[1], 0); },
          {x, random_array({4, 4, 2}, 3, -1, 1, float64)}) == "");
  const NDArray wide = random_array({2, 4, 1}, 3, -1, 1, float64);
  CHECK(gradient_differences([&](const auto& in) { return take_along_axis(in[0], along, 1); }, {wide}) == "");
  const NDArray two = random_array({2, 2, 1}, 4, -1, 1, float64);
  CHECK(
      gradient_differences([&](const auto& in) { return put_along_axis(in[0], along, in[1], 1); }, {wide, two}) == "");
  CHECK(
      gradient_differences([&](const auto& in) { return add_along_axis(in[0], along, in[1], 1); }, {wide, two}) == "");
  CHECK(
      gradient_differences(
          [&](const auto& in) { return put(in[0], at[0], in[1]); }, {x, full({}, 2, {.dtype = float64})}) == "");
  const NDArray mask = array<bool>({true, false, true});
  CHECK(
      gradient_differences(
          [&](const auto& in) { return masked_fill(in[0], mask, in[1]); }, {x, random_array({2}, 5, -1, 1, float64)}) ==
      "");
}

TEST_CASE("The row of padding gets no gradient, whatever it is called", "[indexing]") {
  const NDArray weight = random_array({4, 3}, 1, -1, 1, float64);
  const NDArray indices = array<std::int8_t>({1, 3, -3, 2, 1, -1}, {2, 3});
  for (const std::int64_t padding : {1, -3}) {
    NDArray w = weight.copy();
    w.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = embedding(indices, w, padding);
    }
    CHECK(differences(y, take(weight, indices)) == "");
    NDArray head = ones(y.shape(), {.dtype = float64});
    head.assign({0, 0}, std::numeric_limits<double>::quiet_NaN());  // of a padded place
    y.backward(head);
    CHECK(w.grad().to_vector<double>() == std::vector<double>{0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2});
  }
  CHECK(gradient_differences([&](const auto& in) { return embedding(indices, in[0]); }, {weight}) == "");
  CHECK_THROWS_AS(embedding(indices, weight, 4), IndexError);
  CHECK_THROWS_AS(embedding(indices, weight, -5), IndexError);
  CHECK_THROWS_AS(embedding(weight, weight), DTypeError);
  CHECK_THROWS_AS(embedding(array<int>({4}), weight, 0).wait_to_read(), IndexError);
}
