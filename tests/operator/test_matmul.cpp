#include <cmath>
#include <limits>
#include <thread>

#include <sluice/operator/detail/call_record.h>
#include <sluice/operator/matmul/product.h>

#include "tests/operator/heavy_reference.h"
#include "tests/operator/run_kernel.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

// Pairs of shapes that cover NumPy's rules.
const std::vector<std::pair<Shape, Shape>> k_shapes = {
    {{2, 3}, {3, 4}},
    {{1, 1}, {1, 1}},
    {{5}, {5}},
    {{5}, {5, 3}},
    {{4, 5}, {5}},
    {{5}, {2, 5, 3}},
    {{2, 4, 5}, {5}},
    {{2, 4, 5}, {5, 3}},
    {{4, 5}, {2, 5, 3}},
    {{2, 4, 5}, {2, 5, 3}},
    {{2, 1, 4, 5}, {3, 5, 6}},
    {{1, 3, 4, 5}, {2, 1, 5, 6}},
    {{37, 129}, {129, 65}},
    {{1, 300}, {300, 1}},
    {{200, 1}, {1, 300}},
    {{0, 3}, {3, 2}},
    {{2, 0}, {0, 3}},
    {{0, 2, 3}, {3, 4}},
    {{2, 3}, {3, 0}},
};

NDArray draw(const Shape& shape, std::uint64_t seed, DType dtype, Device device = cpu()) {
  return random_array(shape, seed, is_integer(dtype) ? -9 : -1, is_integer(dtype) ? 9 : 1, dtype, device);
}

}  // namespace

TEST_CASE("matmul follows NumPy's rules for shapes") {
  for (const auto& [a_shape, b_shape] : k_shapes) {
    CAPTURE(to_string(a_shape), to_string(b_shape));
    NDArray a = draw(a_shape, 1, float32), b = draw(b_shape, 2, float32);
    CHECK(differences(matmul(a, b), reference_matmul(a, b), sum_tolerance(float32)) == "");
  }
}

TEST_CASE("matmul takes every floating type and integers") {
  for (const DType dtype : {float16, bfloat16, float32, float64, int8, int32, int64}) {
    CAPTURE(name_of(dtype));
    const NDArray a = draw({3, 17, 33}, 1, dtype), b = draw({33, 21}, 2, dtype);
    const NDArray c = matmul(a, b);
    CHECK(c.dtype() == dtype);
    const NDArray want = reference_matmul(a, b);
    CHECK(differences(c, dtype == int8 ? want.astype(int64).astype(int8) : want, sum_tolerance(dtype)) == "");
  }
}

TEST_CASE("matmul reads transposed and sliced views without a copy of its own") {
  for (const DType dtype : {float32, float64}) {
    const NDArray a = draw({40, 30}, 1, dtype), b = draw({50, 30}, 2, dtype), c = draw({30, 40}, 3, dtype);
    const Tolerance tolerance = sum_tolerance(dtype);
    CHECK(differences(matmul(a, b.T()), reference_matmul(a, b.T()), tolerance) == "");
    CHECK(differences(matmul(c.T(), b.T()), reference_matmul(c.T(), b.T()), tolerance) == "");
    CHECK(differences(matmul(c.T(), c), reference_matmul(c.T(), c), tolerance) == "");
    const NDArray rows = a.slice(0, 3, 20), columns = a.slice(1, 5, 25), every_other = b.slice(1, 0, 30, 2);
    CHECK(differences(matmul(rows, b.T()), reference_matmul(rows, b.T()), tolerance) == "");
    CHECK(
        differences(matmul(columns, c.slice(0, 0, 20)), reference_matmul(columns, c.slice(0, 0, 20)), tolerance) == "");
    CHECK(
        differences(
            matmul(every_other, c.slice(0, 0, 15)), reference_matmul(every_other, c.slice(0, 0, 15)), tolerance) == "");
    const NDArray stretched = a.slice(0, 0, 1).broadcast_to({7, 30});
    CHECK(differences(matmul(stretched, b.T()), reference_matmul(stretched, b.T()), tolerance) == "");
    const NDArray batch = draw({4, 6, 5}, 4, dtype).swapaxes(0, 1);
    CHECK(
        differences(matmul(batch, batch.swapaxes(1, 2)), reference_matmul(batch, batch.swapaxes(1, 2)), tolerance) ==
        "");
  }
}

TEST_CASE("matmul of bool arrays, and of shapes that do not fit is refused by name") {
  const NDArray a = draw({2, 3}, 1, float32);
  CHECK_THROWS_AS(matmul(draw({2, 2}, 1, bool_), draw({2, 2}, 1, bool_)), DTypeError);
  CHECK_THROWS_WITH(matmul(a, a), contains("matmul") && contains("(2, 3)"));
  CHECK_THROWS_AS(matmul(a, a), ShapeError);
  CHECK_THROWS_AS(matmul(zeros({2, 2, 3}), zeros({3, 3, 2})), ShapeError);
  CHECK_THROWS_AS(matmul(full({}, 1), a), ShapeError);
  CHECK_THROWS_AS(matmul(NDArray(), a), ValueError);
}

TEST_CASE("The gradients of matmul agree with finite differences") {
  for (const auto& [a_shape, b_shape] : k_shapes) {
    if (a_shape.size() > 200 || b_shape.size() > 200)
      continue;
    CAPTURE(to_string(a_shape), to_string(b_shape));
    const std::vector<NDArray> inputs{draw(a_shape, 1, float64), draw(b_shape, 2, float64)};
    CHECK(gradient_differences([](const auto& v) { return matmul(v[0], v[1]); }, inputs) == "");
  }
  const std::vector<NDArray> inputs{draw({4, 3}, 1, float64), draw({5, 4}, 2, float64)};
  CHECK(gradient_differences([](const auto& v) { return matmul(v[0].T(), v[1].T()); }, inputs) == "");
}

TEST_CASE("The gradient of matmul's gradient is recorded with create_graph") {
  NDArray a = draw({3, 4}, 1, float64), b = draw({4, 2}, 2, float64);
  a.attach_grad();
  b.attach_grad();
  const autograd::RecordScope record;
  const NDArray y = matmul(a, b);
  const std::vector<NDArray> heads{(y * y * 0.5)};
  const auto first = autograd::grad(heads, std::vector<NDArray>{a}, {}, {.retain_graph = true, .create_graph = true});
  // d/da of |a b|^2 / 2 is a b b^T; the gradient of its sum with respect to a is ones b b^T.
  first[0].backward();
  CHECK(differences(a.grad(), reference_matmul(reference_matmul(ones({3, 4}, {.dtype = float64}), b), b.T())) == "");
}

TEST_CASE("dense multiplies by the weight's transpose, adds the bias, applies relu") {
  for (const DType dtype : k_heavy_dtypes) {
    CAPTURE(name_of(dtype));
    const NDArray x = draw({6, 5, 4}, 1, dtype), w = draw({7, 20}, 2, dtype), w4 = draw({7, 4}, 3, dtype);
    const NDArray bias = draw({7}, 4, dtype);
    const NDArray flat = reference_matmul(x.reshape({6, 20}), w.T()) + bias.astype(float64);
    CHECK(differences(dense(x, w, bias), flat, sum_tolerance(dtype)) == "");
    CHECK(differences(dense(x, w, bias, {.activation = "relu"}), maximum(flat, 0.0), sum_tolerance(dtype)) == "");
    CHECK(differences(dense(x, w, {}), flat - bias.astype(float64), sum_tolerance(dtype)) == "");
    const NDArray last = reference_matmul(x, w4.T()) + bias.astype(float64);
    CHECK(differences(dense(x, w4, bias, {.flatten = false}), last, sum_tolerance(dtype)) == "");
  }
  CHECK(dense(zeros({0, 4}), zeros({3, 4}), zeros({3})).shape() == Shape{0, 3});
  CHECK(differences(dense(zeros({2, 0}), zeros({3, 0}), full({3}, 5)), full({2, 3}, 5)) == "");
}

TEST_CASE("NaN stays NaN in a fused relu, and passes gradients on") {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : k_heavy_dtypes) {
    CAPTURE(name_of(dtype));
    const NDArray x = draw({20, 30}, 1, dtype), w = draw({40, 30}, 2, dtype);
    NDArray bias = zeros({40}, {.dtype = dtype});
    x.slice(0, 3, 4).slice(1, 5, 6).assign(nan);  // makes one row of the result NaN
    bias.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = dense(x, w, bias, {.activation = "relu"});
    }
    y.backward();
    const auto values = y.to_vector<double>();
    std::vector<double> passed(40);
    std::int64_t rows = 0, elsewhere = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      (i / 40 == 3 ? rows : elsewhere) += std::isnan(values[i]);
      passed[i % 40] += std::isnan(values[i]) || values[i] > 0;
    }
    CHECK(rows == 40);
    CHECK(elsewhere == 0);
    CHECK(bias.grad().to_vector<double>() == passed);
  }
}

TEST_CASE("Each batch of products is one that a library takes, however its operands lie") {
  std::vector<NDArray> left, right;
  for (const std::int64_t batch : {1, 2}) {
    for (const std::int64_t m : {1, 3}) {
      for (const std::int64_t k : {1, 4}) {
        const NDArray a = zeros({batch, m, k});
        left.insert(left.end(), {a, zeros({k, m, batch}).transpose(), zeros({batch, k, m}).swapaxes(1, 2)});
        left.push_back(zeros({m, batch, k}).swapaxes(0, 1));
        left.push_back(zeros({batch, m, 2 * k}).slice(2, 0, 2 * k, 2));
        left.push_back(zeros({batch, m + 2, k + 3}).slice(1, 1, m + 1).slice(2, 1, k + 1));
        for (const Shape& from : {Shape{1, m, k}, Shape{batch, 1, k}, Shape{batch, m, 1}, Shape{1, 1, 1}})
          left.push_back(zeros(from).broadcast_to(a.shape()));
        right.insert(right.end(), {zeros({k}), zeros({k, 2}), zeros({2, k}).T(), zeros({1}).broadcast_to({k})});
        right.push_back(zeros({1, 2}).broadcast_to({k, 2}));
      }
    }
  }
  using sluice::detail::GemmProblem;
  for (const NDArray& a : left) {
    for (const NDArray& b : right) {
      if (a.shape()[2] != b.shape()[0])
        continue;
      CAPTURE(to_string(a.shape()), to_string(a.strides()), to_string(b.shape()), to_string(b.strides()));
      const auto taken = [](const NDArray& x) {
        return sluice::detail::is_plain(x.shape(), x.strides()) ? x : x.copy();
      };
      const NDArray c = matmul(a, b), plain_a = taken(a), plain_b = taken(b);
      const auto view = [](const NDArray& x) {
        std::vector<TensorView> views;
        sluice::detail::add_view(views, *x.object());
        return views[0];
      };
      std::int64_t rows = 0;
      for_each_product(
          sluice::detail::batched_product(view(plain_a), view(plain_b), view(c), {}), [&](const GemmProblem& p) {
            CHECK(sluice::detail::is_plain(p));
            // What is_plain() does not look at: one column's stride still reaches over all rows.
            CHECK((p.a.column == 1 || p.a.column >= p.m));
            rows += p.m * p.batch;
          });
      CHECK(rows == a.shape()[0] * a.shape()[1]);
    }
  }
}

TEST_CASE("Batches of one column are multiplied, and plain products of their size after them") {
  for (const auto& [a_shape, b_shape] : {std::pair<Shape, Shape>{{2, 3, 4}, {4}}, {{2, 2, 1}, {1, 2}}}) {
    CAPTURE(to_string(a_shape));
    NDArray a = draw(a_shape, 1, float32), b = draw(b_shape, 2, float32);
    CHECK(differences(matmul(a, b), reference_matmul(a, b), sum_tolerance(float32)) == "");
    a.attach_grad();
    NDArray y;
    {
      const autograd::RecordScope record;
      y = matmul(a, b);
    }
    y.backward();
    a.grad().wait_to_read();
  }
  for (const std::int64_t m : {4, 6}) {
    for (const std::int64_t n : {2, 4}) {
      const NDArray a = draw({m, 1}, 3, float32), b = draw({1, n}, 4, float32);
      CHECK(differences(matmul(a, b), reference_matmul(a, b), sum_tolerance(float32)) == "");
    }
  }
}

TEST_CASE("dense refuses what does not fit, by name") {
  const NDArray x = zeros({2, 3}), w = zeros({4, 3}), bias = zeros({4});
  CHECK_THROWS_AS(dense(x, zeros({4, 2}), bias), ShapeError);
  CHECK_THROWS_AS(dense(x, w, zeros({3})), ShapeError);
  CHECK_THROWS_AS(dense(x, w, bias, {.activation = "tanh"}), ValueError);
  CHECK_THROWS_AS(dense(x.astype(int32), w.astype(int32), bias.astype(int32)), DTypeError);
  CHECK_THROWS_WITH(dense(x, w, zeros({3})), contains("dense") && contains("(3,)"));
}

TEST_CASE("The gradients of dense agree with finite differences") {
  const std::vector<NDArray> inputs{draw({5, 2, 3}, 1, float64), draw({4, 6}, 2, float64), draw({4}, 3, float64)};
  CHECK(gradient_differences([](const auto& v) { return dense(v[0], v[1], v[2]); }, inputs) == "");
  CHECK(gradient_differences([](const auto& v) { return dense(v[0], v[1], {}); }, {inputs[0], inputs[1]}) == "");
  const auto relu = [](const auto& v) { return dense(v[0], v[1], v[2], {.activation = "relu"}); };
  CHECK(gradient_differences(relu, inputs) == "");
  const std::vector<NDArray> last{inputs[0], draw({4, 3}, 2, float64), inputs[2]};
  CHECK(gradient_differences([](const auto& v) { return dense(v[0], v[1], v[2], {.flatten = false}); }, last) == "");
}

TEST_CASE("The gradients of dense's gradients agree with finite differences") {
  // Each pass of the layer is an operator; as functions of their own they are checked like any other.
  const std::vector<NDArray> inputs{draw({5, 4}, 1, float64), draw({5, 3}, 2, float64)};
  const auto weights = [](int which) {
    return [which](const std::vector<NDArray>& v) {
      NDArray w = zeros({4, 3}, {.dtype = float64}), bias = zeros({4}, {.dtype = float64});
      w.attach_grad();
      bias.attach_grad();
      const autograd::RecordScope record;
      const std::vector<NDArray> heads{dense(v[1], w, bias)}, head_grads{v[0]}, variables{w, bias};
      return autograd::grad(heads, variables, head_grads, {.create_graph = true})[which];
    };
  };
  CHECK(gradient_differences(weights(0), inputs) == "");
  CHECK(gradient_differences(weights(1), {inputs[0], inputs[1].astype(float32).astype(float64)}) == "");
}

TEST_CASE("Our own product and oneDNN's give the same") {
  for (const auto& [m, n, k] :
       {std::array<std::int64_t, 3>{1, 1, 1},
        {3, 5, 7},
        {64, 10, 128},
        {193, 257, 300},
        {33, 257, 700},
        {64, 128, 600}}) {
    CAPTURE(m, n, k);
    const NDArray a = draw({m, k}, 1, float32), b = draw({n, k}, 2, float32), bias = draw({n}, 3, float32);
    const NDArray ours = zeros({m, n}), theirs = zeros({m, n});
    sluice::detail::GemmProblem p{.m = m, .n = n, .k = k, .relu = true};
    p.a = {data_of(a), k, 1, 0};
    p.b = {data_of(b), 1, k, 0};
    p.column_bias = data_of(bias);
    p.c = {data_of(ours), n, 1, 0};
    run_kernel({a, b, bias, ours}, [p](const Queue&) { sluice::detail::gemm(p); });
    sluice::detail::GemmProblem q = p;
    q.c.data = data_of(theirs);
    run_kernel({a, b, bias, theirs}, [q](const Queue& queue) { sluice::detail::product_cpu(queue, q); });
    const NDArray want = maximum(reference_matmul(a, b.T()) + bias.astype(float64), 0.0);
    CHECK(differences(ours, want, sum_tolerance(float32)) == "");
    CHECK(differences(theirs, want, sum_tolerance(float32)) == "");
  }
}

TEST_CASE("Products of many shapes from several threads share the caches safely") {
  std::vector<std::thread> threads;
  std::vector<std::string> found(4);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([t, &found] {
      for (std::int64_t i = 1; i < 40; ++i) {
        const NDArray a = draw({i, 2 * i + t}, 1, float32), b = draw({2 * i + t, 40 - i}, 2, float32);
        const std::string what = differences(matmul(a, b), reference_matmul(a, b), sum_tolerance(float32));
        if (!what.empty())
          found[t] = what;
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  for (const std::string& what : found)
    CHECK(what == "");
}

TEST_CASE("The float32 precision is highest until it is set") {
  CHECK(float32_precision() == "highest");
  set_float32_precision("high");
  CHECK(float32_precision() == "high");
  set_float32_precision("highest");
  CHECK_THROWS_AS(set_float32_precision("medium"), ValueError);
  CHECK(float32_precision() == "highest");
}

TEST_CASE("a bias whose weight is frozen trains as beside it, and nothing is kept of what was multiplied", "[matmul]") {
  const auto numbers = [](const Shape& shape, double step) {
    return sin(arange(0, static_cast<double>(shape.size()), 1, {.dtype = float64}) * step).reshape(shape);
  };
  struct Found {
    std::vector<double> first, second;
  };
  const auto found = [&](bool frozen) {
    NDArray x = numbers({3, 4, 5}, 0.7), weight = numbers({6, 5}, 1.3), bias = numbers({6}, 2.1);
    bias.attach_grad();
    if (!frozen)
      weight.attach_grad();
    const autograd::RecordScope record;
    const NDArray y = tanh(dense(x, weight, bias, {.flatten = false}));
    if (frozen)
      x.assign(0.0);
    const std::vector<NDArray> variables{bias}, heads{sum(y * y)};
    const NDArray first = autograd::grad(heads, variables, {}, {.create_graph = true})[0];
    const std::vector<NDArray> again{sum(first * first)};
    const NDArray second = autograd::grad(again, variables)[0];
    return Found{first.to_vector<double>(), second.to_vector<double>()};
  };
  const Found alone = found(true), beside = found(false);
  CHECK(alone.first == beside.first);
  CHECK(alone.second == beside.second);
}
