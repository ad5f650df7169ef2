#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/reference.h"
#include "tests/support/catch.h"
#include "tests/support/compare.h"
#include "tests/support/gradient.h"

namespace sluice {
namespace {

using test::Dense;

std::int64_t resolve(std::int64_t index, std::int64_t n, IndexMode mode) {
  if (mode == IndexMode::clip)
    return std::min(std::max<std::int64_t>(index, 0), n - 1);
  return (index % n + n) % n;  // raise and wrap agree where raise takes the index
}

// numpy.take by plain loops.
NDArray take_reference(const NDArray& x, const NDArray& indices, int axis, IndexMode mode) {
  const Dense from(x);
  const auto list = indices.to_vector<std::int64_t>();
  std::int64_t outer = 1, inner = 1;
  for (int i = 0; i < x.ndim(); ++i) {
    if (i != axis)
      (i < axis ? outer : inner) *= x.shape()[i];
  }
  const std::int64_t n = x.shape()[axis];
  Shape shape = x.shape();
  shape.erase(axis);
  for (int i = 0; i < indices.ndim(); ++i)
    shape.insert(axis + i, indices.shape()[i]);
  Dense result(shape, 0);
  std::size_t at = 0;
  for (std::int64_t o = 0; o < outer; ++o) {
    for (std::int64_t index : list) {
      for (std::int64_t i = 0; i < inner; ++i)
        result.values[at++] = from.values[static_cast<std::size_t>((o * n + resolve(index, n, mode)) * inner + i)];
    }
  }
  return result.array();
}

TEST_CASE("take agrees with plain loops for every type, axis, mode and type of index") {
  for (DType dtype : test::all_dtypes()) {
    const NDArray x = test::random_array({4, 5, 6}, 1, -20, 20, dtype);
    for (int axis : {0, 1, 2}) {
      for (DType index_type : {int8, int32, int64, int16}) {
        INFO(dtype << " axis " << axis << " " << index_type);
        const NDArray inside = test::random_array({3, 2}, 2, -4, 3, index_type);
        const NDArray outside = test::random_array({7}, 3, -100, 100, index_type);
        CHECK(test::differences(take(x, inside, axis), take_reference(x, inside, axis, IndexMode::raise)) == "");
        for (IndexMode mode : {IndexMode::clip, IndexMode::wrap})
          CHECK(test::differences(take(x, outside, axis, mode), take_reference(x, outside, axis, mode)) == "");
      }
    }
  }
}

TEST_CASE("take takes strided, empty and zero-dimensional arrays") {
  const NDArray x = test::random_array({6, 7}, 4);
  const NDArray indices = array<std::int64_t>({5, 0, 3, 2}).slice(0, 0, 4, 2);
  CHECK(
      test::differences(take(x.transpose(), indices, 1), take_reference(x.transpose(), indices, 1, IndexMode::raise)) ==
      "");
  CHECK(take(x, full({}, 2, {.dtype = int64})).shape() == Shape{7});
  CHECK(take(x, zeros({0}, {.dtype = int32}), 1).shape() == Shape{6, 0});
  CHECK(take(zeros({0, 3}), zeros({0}, {.dtype = int32})).shape() == Shape{0, 3});
  CHECK_THROWS_AS(take(zeros({0, 3}), zeros({1}, {.dtype = int32})), ValueError);
  CHECK(take(x, array<std::uint8_t>({1}), -1).shape() == Shape{6, 1});
}

TEST_CASE("an index out of bounds is an IndexError at the wait") {
  const NDArray x = zeros({2, 3});
  for (int index : {3, -4}) {
    const NDArray taken = take(x, array<int>({0, index}), 1);
    CHECK_THROWS_AS(taken.wait_to_read(), IndexError);
    CHECK_THROWS_WITH(
        taken.wait_to_read(),
        sluice::test::contains("take: index " + std::to_string(index)) && sluice::test::contains("axis 1 with size 3"));
    CHECK_THROWS_AS(pick(x, array<int>({0, index})).wait_to_read(), IndexError);
  }
  CHECK_THROWS_AS(one_hot(array<int>({0, 3}), 3).wait_to_read(), IndexError);
  CHECK_THROWS_AS(one_hot(array<int>({-1}), 3).wait_to_read(), IndexError);
}

// `least` and `most` are the limits of the type.
void check_limits_of_numbers(DType dtype, std::int64_t least, std::int64_t most) {
  const std::int64_t n = 7;
  const NDArray x = test::random_array({n}, 31);
  const std::vector<float> values = x.to_vector<float>();
  for (const std::int64_t count : {1, 2, 3, 511, 512, 513, 1025}) {
    for (const std::int64_t place : {std::int64_t{0}, count / 2, count - 1}) {
      std::vector<std::int64_t> numbers(static_cast<std::size_t>(count), 2);
      std::int64_t& one = numbers[static_cast<std::size_t>(place)];
      const auto given = [&] { return array(std::span<const std::int64_t>(numbers), Shape{count}).astype(dtype); };
      for (const std::int64_t good : {-7, -1, 0, 6}) {
        INFO(dtype << ": " << count << " numbers, " << good << " at " << place);
        one = good;
        const std::vector<float> taken = take(x, given()).to_vector<float>();
        CHECK(taken[static_cast<std::size_t>(place)] == values[static_cast<std::size_t>(good < 0 ? good + n : good)]);
        CHECK(std::count(taken.begin(), taken.end(), values[2]) >= count - 1);
      }
      for (const std::int64_t bad : {std::int64_t{-8}, std::int64_t{7}, least, most}) {
        INFO(dtype << ": " << count << " numbers, " << bad << " at " << place);
        one = bad;
        CHECK_THROWS_AS(take(x, given()).wait_to_read(), IndexError);
        CHECK_THROWS_AS(index_add(x, {given()}, ones({count})).wait_to_read(), IndexError);
      }
    }
  }
}

TEST_CASE("Numbers just inside and just outside an axis are told apart wherever they stand", "[indexing]") {
  using Wide = std::numeric_limits<std::int64_t>;
  using Narrow = std::numeric_limits<std::int32_t>;
  check_limits_of_numbers(int64, Wide::min(), Wide::max());
  check_limits_of_numbers(int32, Narrow::min(), Narrow::max());
}

TEST_CASE("What is added up along an axis begins at zero in every column, for every type", "[indexing]") {
  for (const DType dtype : {float32, float64, float16, bfloat16, int64}) {
    for (const std::int64_t inner : {1, 2, 63, 64, 65, 128, 130}) {
      INFO(dtype << ", " << inner << " behind the axis");
      const Shape shape{3, 5, inner};
      const NDArray numbers = test::random_array({3, 4, inner}, 32, -5, 4, int64);
      const NDArray values = test::random_array(numbers.shape(), 33, -3, 3, int64).astype(dtype);
      full(shape, 7, {.dtype = dtype}).wait_to_read();  // memory that has been used
      const NDArray sums = add_along_axis(zeros(shape, {.dtype = dtype}), numbers, values, 1);
      Dense want(shape, 0);
      const auto at = numbers.to_vector<std::int64_t>();
      const Dense from(values);
      for (std::int64_t i = 0; i < numbers.size(); ++i) {
        const std::int64_t outer = i / (4 * inner),
                           entry = resolve(at[static_cast<std::size_t>(i)], 5, IndexMode::wrap);
        want.values[static_cast<std::size_t>((outer * 5 + entry) * inner + i % inner)] +=
            from.values[static_cast<std::size_t>(i)];
      }
      CHECK(test::differences(sums, want.array().astype(dtype)) == "");
    }
  }
}

TEST_CASE("gather operators refuse what does not fit and name themselves") {
  const NDArray x = zeros({2, 3});
  CHECK_THROWS_WITH(take(x, zeros({2})), sluice::test::contains("take") && sluice::test::contains("float32"));
  CHECK_THROWS_AS(take(x, array<int>({0}), 2), IndexError);
  CHECK_THROWS_AS(one_hot(array<int>({0}), 0), ValueError);
  CHECK_THROWS_AS(one_hot(array<float>({0}), 3), DTypeError);
  CHECK_THROWS_WITH(pick(x, array<int>({0, 1, 2})), sluice::test::contains("pick") && sluice::test::contains("(3,)"));
  CHECK_THROWS_AS(pick(zeros({2, 0}), array<int>({0, 0})), ValueError);
}

TEST_CASE("one_hot has a one at each index, for every type") {
  const NDArray indices = array<int>({2, 0, 1, 2}, {2, 2});
  for (DType dtype : test::all_dtypes()) {
    const NDArray y = one_hot(indices, 3, dtype);
    CHECK(y.dtype() == dtype);
    CHECK(y.shape() == Shape{2, 2, 3});
    CHECK(y.to_vector<double>() == std::vector<double>{0, 0, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1});
  }
}

TEST_CASE("pick takes one element of each row along any axis") {
  for (DType dtype : test::all_dtypes()) {
    const NDArray x = test::random_array({3, 4, 5}, 6, -9, 9, dtype);
    for (int axis : {0, 1, 2}) {
      Shape rows = x.shape();
      rows.erase(axis);
      const NDArray index = test::random_array(rows, 7, -3, 2, int64);
      const NDArray picked = pick(x, index, axis);
      // By way of a mask: the one element of the row where the place is the index.
      const Dense from(x);
      const auto list = index.to_vector<std::int64_t>();
      Dense want(rows, 0);
      for (std::size_t i = 0; i < from.values.size(); ++i) {
        auto at = test::unravel(from.shape, static_cast<std::int64_t>(i));
        const std::int64_t place = at[static_cast<std::size_t>(axis)];
        at.erase(at.begin() + axis);
        const auto row = static_cast<std::size_t>(test::ravel(rows, at));
        if (place == resolve(list[row], x.shape()[axis], IndexMode::raise))
          want.values[row] = from.values[i];
      }
      INFO(dtype << " axis " << axis);
      CHECK(test::differences(picked, want.array()) == "");
    }
  }
  const NDArray x = array<float>({1, 2, 3, 4}, {2, 2});
  CHECK(pick(x, array<int>({5, -5}), 1, IndexMode::clip).to_vector<float>() == std::vector<float>{2, 3});
  CHECK(pick(x, array<int>({5, -5}), 1, IndexMode::wrap).to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("gradients of take and pick agree with finite differences, twice") {
  const NDArray x = test::random_array({3, 4, 5}, 8, -1, 1, float64);
  const NDArray many = array<int>({2, 0, 2, 2, -1, 1}, {2, 3});
  for (int axis : {0, 1, 2}) {
    CHECK(test::gradient_differences([=](const auto& in) { return take(in[0], many, axis); }, {x}) == "");
    const auto wrapped = [=](const auto& in) { return take(in[0], many * 7, axis, IndexMode::wrap); };
    CHECK(test::gradient_differences(wrapped, {x}) == "");
    Shape rows = x.shape();
    rows.erase(axis);
    const NDArray index = test::random_array(rows, 9, 0, 2, int32);
    CHECK(test::gradient_differences([=](const auto& in) { return pick(in[0], index, axis); }, {x}) == "");
    // The gradient is linear in dy: its own gradient takes again.
    const auto twice = [=](const std::vector<NDArray>& in) {
      NDArray base = zeros(x.shape(), {.dtype = float64});
      base.attach_grad();
      const autograd::RecordScope record;
      const NDArray heads[] = {take(base, many, axis)}, variables[] = {base}, head_grads[] = {in[0]};
      return autograd::grad(heads, variables, head_grads, {.create_graph = true})[0];
    };
    const NDArray dy = test::random_array(take(x, many, axis).shape(), 10, -1, 1, float64);
    CHECK(test::gradient_differences(twice, {dy}) == "");
  }
}

NDArray embedding_gradient(const NDArray& weight, const NDArray& indices, int axis) {
  NDArray w = weight.copy();
  w.attach_grad();
  NDArray y;
  {
    const autograd::RecordScope record;
    y = take(w, indices, axis);
  }
  y.backward(test::random_array(y.shape(), 11, -1, 1, w.dtype(), w.device()));
  return w.grad();
}

TEST_CASE("the gradient of take adds up in one order on any number of workers") {
  std::vector<std::vector<float>> results;
  for (int workers : {1, 4}) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray indices = test::random_array({5000}, 12, 0, 99, int32);
    results.push_back(embedding_gradient(test::random_array({100, 33}, 13), indices, 0).to_vector<float>());
  }
  CHECK(results[0] == results[1]);
}

TEST_CASE("take, one_hot and pick on a GPU agree with the CPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (DType dtype : test::all_dtypes()) {
    const NDArray x = test::random_array({7, 12, 40}, 14, -20, 20, dtype);
    const NDArray indices = test::random_array({5, 9}, 15, -7, 6, int32);
    const NDArray outside = test::random_array({70}, 16, -1000, 1000, int64);
    for (int axis : {0, 1, 2}) {
      INFO(dtype << " axis " << axis);
      CHECK(test::differences(take(x.to(gpu()), indices.to(gpu()), axis).to(cpu()), take(x, indices, axis)) == "");
      for (IndexMode mode : {IndexMode::clip, IndexMode::wrap}) {
        const NDArray got = take(x.to(gpu()).transpose(), outside.to(gpu()), axis, mode);
        CHECK(test::differences(got.to(cpu()), take(x.transpose(), outside, axis, mode)) == "");
      }
      Shape rows = x.shape();
      rows.erase(axis);
      const NDArray index = test::random_array(rows, 17, -7, 6, int8);
      CHECK(test::differences(pick(x.to(gpu()), index.to(gpu()), axis).to(cpu()), pick(x, index, axis)) == "");
    }
    const NDArray places = test::random_array({300}, 18, 0, 12, int32);
    CHECK(test::differences(one_hot(places.to(gpu()), 13, dtype).to(cpu()), one_hot(places, 13, dtype)) == "");
  }
}

TEST_CASE("gradients of take and pick on a GPU agree with the CPU, the same bits every time", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (DType dtype : test::floating_dtypes()) {
    for (int axis : {0, 1}) {
      const NDArray weight = test::random_array({60, 50}, 19, -1, 1, dtype);
      const NDArray indices = test::random_array({4000}, 20, -50, 49, int32);
      const NDArray want = embedding_gradient(weight, indices, axis);
      const NDArray got = embedding_gradient(weight.to(gpu()), indices.to(gpu()), axis).to(cpu());
      test::Tolerance tolerance = test::tolerance_of(dtype);
      tolerance.absolute = std::max(tolerance.absolute, dtype == float64 ? 1e-12 : 1e-5);
      CHECK(test::differences(got, want, tolerance) == "");
      CHECK(
          embedding_gradient(weight.to(gpu()), indices.to(gpu()), axis).to_vector<double>() == got.to_vector<double>());
    }
  }
}

// Long runs of one index are added in two steps. One after the other, ones added to 2^24 in float32 would all be lost:
// 2^24 + 65535 came out as 2^24.
TEST_CASE("the gradient of an entry that is taken very often adds up in two steps on a GPU", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  for (const Shape& slice : {Shape{}, Shape{3}, Shape{100}, Shape{1100}}) {
    const std::int64_t n = slice.size() > 1000 ? 1 << 13 : 1 << 16;
    Shape heads = slice;
    heads.insert(0, n);
    const auto gradient = [&](const NDArray& indices, const NDArray& dy) {
      Shape shape = slice;
      shape.insert(0, 5);
      NDArray w = zeros(shape, {.device = gpu()});
      w.attach_grad();
      NDArray y;
      {
        const autograd::RecordScope record;
        y = take(w, indices.to(gpu()));
      }
      y.backward(dy.to(gpu()));
      return w.grad().to(cpu());
    };
    CAPTURE(slice);
    NDArray dy = ones(heads);
    dy.slice(0, 0, 1).assign(1 << 24);
    // The first chunk keeps 2^24 alone; all the others count.
    const NDArray one = gradient(full({n}, 3, {.dtype = int32}), dy);
    for (const float value : one.slice(0, 3, 4).to_vector<float>())
      CHECK(value >= static_cast<float>((1 << 24) + n - 1024));
    for (const float value : one.slice(0, 0, 3).to_vector<float>())
      CHECK(value == 0);
    // Runs that begin and end inside chunks, beside indices of their own; whole numbers add exactly.
    NDArray indices = zeros({n}, {.dtype = int32});
    indices.slice(0, 100, 5000).assign(2);
    indices.slice(0, 5000, 5001).assign(4);
    indices.slice(0, 5001, 5031).assign(1);
    const auto counts = sum(gradient(indices, ones(heads)).reshape({5, -1}), {1}).to_vector<float>();
    const auto columns = static_cast<float>(slice.size());
    CHECK(
        counts == std::vector<float>{static_cast<float>(n - 4931) * columns, 30 * columns, 4900 * columns, 0, columns});
    const NDArray drawn = test::random_array(heads, 21), many = test::random_array({n}, 22, 0, 4, int32);
    CHECK(gradient(many, drawn).to_vector<float>() == gradient(many, drawn).to_vector<float>());
  }
}

void check_sums(Device device) {
  // 3000 ones would stay at 2048 or 256, were they added in a half type.
  for (const DType dtype : {float16, bfloat16}) {
    const ArrayOptions there{.dtype = dtype, .device = device};
    const auto gradient = [&](const Shape& shape, const auto& f) {
      NDArray x = ones(shape, there);
      x.attach_grad();
      NDArray y;
      {
        const autograd::RecordScope record;
        y = f(x);
      }
      y.backward();
      return max(x.grad()).template item<double>();
    };
    const NDArray none = zeros({3000}, {.dtype = int32, .device = device});
    CHECK(gradient({2}, [&](const NDArray& x) { return take(x, none); }) == Approx(3000).epsilon(0.004));
    CHECK(gradient({2, 3}, [&](const NDArray& x) { return take(x, none); }) == Approx(3000).epsilon(0.004));
    CHECK(gradient({2, 3}, [&](const NDArray& x) {
            return take_along_axis(x, none.expand_dims(1), 0);
          }) == Approx(3000).epsilon(0.004));
  }
  // Columns go in blocks of 64 at most.
  for (const std::int64_t columns : {63, 64, 65, 130}) {
    NDArray x = ones({3, columns}, {.device = device});
    x.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = take_along_axis(x, ones({2, columns}, {.dtype = int32, .device = device}), 0);
    }
    y.backward(arange(0, 2.0 * columns, 1, {.device = device}).reshape({2, columns}));
    CHECK(test::differences(x.grad()[1], arange(0, columns, 1, {.device = device}) * 2 + columns) == "");
    CHECK(max(abs(x.grad().slice(0, 0, 3, 2))).item<float>() == 0);
  }
}

TEST_CASE("What was taken often adds up in float32, in every column") {
  check_sums(cpu());
}
TEST_CASE("What was taken often on a GPU adds up in float32, in every column", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_sums(gpu());
}

TEST_CASE("an index out of bounds on a GPU is an IndexError at the wait, and the GPU goes on", "[gpu]") {
  SLUICE_NEEDS_GPUS(1);
  const NDArray x = ones({3, 4}, {.device = gpu()});
  CHECK_THROWS_AS(take(x, array<int>({0, 3}, gpu())).wait_to_read(), IndexError);
  CHECK_THROWS_AS(pick(x, array<int>({0, 4, 1}, gpu())).wait_to_read(), IndexError);
  CHECK_THROWS_AS(one_hot(array<int>({5}, gpu()), 5).wait_to_read(), IndexError);
  const NDArray bad = take(x, array<int>({0, -4}, gpu()));
  const NDArray made_of_it = sum(bad * 2), beside = x + 1;
  CHECK(sum(beside).item<float>() == 24);  // a wait for something else hears nothing of it
  for (int i = 0; i < 2; ++i) {
    CHECK_THROWS_AS(made_of_it.item<float>(), IndexError);
    CHECK_THROWS_WITH(
        bad.to_vector<float>(),
        sluice::test::contains("in task \"take\"") && sluice::test::contains("test_gather.cpp"));
  }
  CHECK(sum(take(x, array<int>({2, -3}, gpu()))).item<float>() == 8);
}

}  // namespace
}  // namespace sluice
