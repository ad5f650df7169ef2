// Decompositions against what defines them: products that give the matrix back, orthonormal columns, equations solved.
#include <limits>
#include <string>
#include <vector>

#include <sluice/operator/api.h>

#include "tests/operator/control_cases.h"
#include "tests/operator/eigenvalue_product.h"
#include "tests/operator/linalg_cases.h"
#include "tests/support/catch.h"
#include "tests/support/gradient.h"

using namespace sluice;
using namespace sluice::test;

namespace {

using sluice::test::case_parts::sound;
using sluice::test::case_parts::symmetric;

constexpr double k_nan = std::numeric_limits<double>::quiet_NaN();

const std::vector<Shape> k_batches = {{}, {3}, {2, 3}, {0}, {2, 0}};

Shape matrices(Shape batch, std::int64_t m, std::int64_t n) {
  batch.push_back(m);
  batch.push_back(n);
  return batch;
}

Tolerance close(DType dtype) {
  return dtype == float64 ? Tolerance{1e-11, 1e-11} : Tolerance{2e-4, 2e-4};
}

NDArray eye(std::int64_t n, const NDArray& beside) {
  const NDArray count = arange(0, static_cast<double>(n));
  return equal(count.expand_dims(1), count.expand_dims(0)).astype(beside.dtype()).to(beside.device());
}

NDArray turned(const NDArray& x) {
  return x.swapaxes(-1, -2);
}

std::string same(const NDArray& got, const NDArray& want) {
  return differences(got.to(cpu()), want.to(cpu()), close(got.dtype()));
}

// What stands below the diagonal, or above it.
bool is_triangular(const NDArray& x, bool lower) {
  const Shape& shape = x.shape();
  const std::vector<double> values = x.to_vector<double>();
  const std::int64_t columns = shape.back(), rows = shape[shape.ndim() - 2];
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    const std::int64_t row = at / columns % rows, column = at % columns;
    if ((lower ? column > row : column < row) && values[i] != 0)
      return false;
  }
  return true;
}

std::string has_orthonormal_columns(const NDArray& q) {
  const NDArray product = matmul(turned(q), q);
  return same(product, eye(q.shape().back(), q).broadcast_to(product.shape()));
}

// With something in the triangle that is not read.
NDArray with_upper(const NDArray& x, double value) {
  const NDArray count = arange(0, static_cast<double>(x.shape().back()), 1, {.device = x.device()});
  return where(less(count.expand_dims(1), count.expand_dims(0)), value, x);
}

template <class Check>
void for_each_input(Device device, const std::vector<std::pair<int, int>>& extents, Check&& check) {
  for (const DType dtype : {float32, float64}) {
    for (const Shape& batch : k_batches) {
      for (const auto& [m, n] : extents) {
        const Shape shape = matrices(batch, m, n);
        CAPTURE(name_of(dtype), to_string(shape));
        check(random_array(shape, 7, -1, 1, dtype, device));
      }
    }
  }
}

void check_solutions(Device device) {
  for_each_input(device, {{0, 0}, {1, 1}, {2, 2}, {5, 5}, {17, 17}}, [&](const NDArray& x) {
    const NDArray a = symmetric(x), b = random_array(x.shape(), 8, -1, 1, x.dtype(), device).slice(-1, 0, 3);
    const NDArray l = cholesky(with_upper(a, k_nan));
    CHECK(is_triangular(l, true));
    CHECK(same(matmul(l, turned(l)), a) == "");
    const NDArray general = sound(x).slice(-2, INT64_MAX, INT64_MIN, -1);  // rows change places
    CHECK(same(matmul(general, solve(general, b)), b) == "");
    const NDArray product = matmul(inverse(general), general);
    CHECK(same(product, eye(x.shape().back(), x).broadcast_to(product.shape())) == "");
    for (int i = 0; i < 8; ++i) {
      const TriangularOptions how{.lower = (i & 1) != 0, .transpose = (i & 2) != 0, .unit_diagonal = (i & 4) != 0};
      CAPTURE(i);
      const NDArray count = arange(0, static_cast<double>(x.shape().back()), 1, {.device = device});
      const NDArray row = count.expand_dims(1), column = count.expand_dims(0);
      const NDArray scaled = sound(x) * 0.25;
      NDArray t = where(how.lower ? greater_equal(row, column) : less_equal(row, column), scaled, 0);
      if (how.unit_diagonal)
        t = where(equal(row, column), 1, t);
      const NDArray y = triangular_solve(scaled, b, how);
      CHECK(same(matmul(how.transpose ? turned(t) : t, y), b) == "");
    }
  });
}

void check_factors(Device device) {
  for_each_input(device, {{1, 1}, {4, 4}, {5, 3}, {3, 5}, {20, 7}, {0, 3}, {3, 0}}, [](const NDArray& x) {
    const Qr by_q = qr(x);
    CHECK(is_triangular(by_q.r, false));
    CHECK(same(matmul(by_q.q, by_q.r), x) == "");
    CHECK(has_orthonormal_columns(by_q.q) == "");
    const Svd values = svd(x);
    CHECK(same(matmul(values.u * values.s.expand_dims(-2), values.vh), x) == "");
    CHECK(has_orthonormal_columns(values.u) == "");
    CHECK(has_orthonormal_columns(turned(values.vh)) == "");
    const NDArray falls = values.s.slice(-1, 0, -1) >= values.s.slice(-1, 1, INT64_MAX);
    CHECK(all(falls).item<bool>());
    CHECK(all(values.s >= 0).item<bool>());
    const NDArray p = pinv(x);
    CHECK(same(matmul(matmul(x, p), x), x) == "");
    CHECK(same(turned(matmul(x, p)), matmul(x, p)) == "");
    CHECK(same(turned(matmul(p, x)), matmul(p, x)) == "");
  });
}

void check_values(Device device) {
  for_each_input(device, {{0, 0}, {1, 1}, {2, 2}, {3, 3}, {9, 9}}, [](const NDArray& x) {
    const NDArray a = x + turned(x);
    const Eigh parts = eigh(with_upper(a, 77));
    CHECK(same(matmul(parts.vectors * parts.values.expand_dims(-2), turned(parts.vectors)), a) == "");
    CHECK(has_orthonormal_columns(parts.vectors) == "");
    CHECK(all(parts.values.slice(-1, 0, -1) <= parts.values.slice(-1, 1, INT64_MAX)).item<bool>());
    const NDArray exact = a.to(cpu()).astype(float64);
    CHECK(differences(det(a).to(cpu()).astype(float64), det(exact), close(x.dtype())) == "");
    check_product(parts.values, eigh(exact).values);
    const SignAndLogDet both = slogdet(x);
    CHECK(same(both.sign * exp(both.logabsdet), det(x)) == "");
  });
}

void check_refusals(Device device) {
  const NDArray good = sound(random_array({3, 2, 2}, 1, -1, 1, float64, device));
  NDArray bad = good.copy();
  bad.slice(0, 1, 2).assign(0);
  const NDArray one = ones({3, 2, 1}, {.dtype = float64, .device = device});
  const auto refused = [](const std::string& op, const NDArray& y, const std::string& why) {
    CAPTURE(op);
    CHECK_THROWS_AS(y.wait_to_read(), ValueError);
    CHECK_THROWS_WITH(y.wait_to_read(), contains(op) && contains("matrix 1 of the batch") && contains(why));
  };
  refused("solve", solve(bad, one), "singular");
  refused("inverse", inverse(bad), "singular: pivot 1");
  refused("triangular_solve", triangular_solve(bad, one), "singular: pivot 1");
  refused("cholesky", cholesky(bad), "not positive definite");
  for (const bool log : {false, true}) {
    bad.attach_grad();
    const autograd::RecordScope record;
    (log ? slogdet(bad).logabsdet : det(bad)).backward();
    refused("det_backward", bad.grad(), "singular: pivot 1");
  }
  const NDArray after = inverse(bad);
  CHECK_THROWS_AS((after + 1).wait_to_read(), ValueError);
  CHECK_NOTHROW(inverse(good).wait_to_read());
  CHECK_NOTHROW(triangular_solve(bad, one, {.unit_diagonal = true}).wait_to_read());
  CHECK(det(bad).to_vector<double>()[1] == 0);
  const SignAndLogDet both = slogdet(bad);
  CHECK(both.sign.to_vector<double>()[1] == 0);
  CHECK(both.logabsdet.to_vector<double>()[1] == -std::numeric_limits<double>::infinity());
}

void check_not_finite(Device device) {
  for (const double value : {k_nan, std::numeric_limits<double>::infinity()}) {
    NDArray x = symmetric(random_array({3, 4, 4}, 1, -1, 1, float64, device));
    const NDArray fine = x.copy();
    x.slice(0, 1, 2).slice(1, 2, 3).slice(2, 1, 2).assign(value);
    const auto check = [](const NDArray& got, const NDArray& want) {
      const NDArray nan = isnan(got.slice(0, 1, 2)), zero = got.slice(0, 1, 2) == 0;
      CHECK(all(logical_or(nan, zero)).item<bool>());  // of triangles the other half
      CHECK(any(nan).item<bool>());
      for (const int other : {0, 2})
        CHECK(same(got.slice(0, other, other + 1), want.slice(0, other, other + 1)) == "");
    };
    check(cholesky(x), cholesky(fine));
    const NDArray upper = fine.copy();  // which nobody reads
    upper.slice(1, 0, 1).slice(2, 1, 4).assign(value);
    CHECK(same(cholesky(upper), cholesky(fine)) == "");
    CHECK(same(eigh(upper).values, eigh(fine).values) == "");
    check(inverse(x), inverse(fine));
    check(solve(x, fine), solve(fine, fine));
    check(det(x), det(fine));
    check(slogdet(x).logabsdet, slogdet(fine).logabsdet);
    check(qr(x).q, qr(fine).q);
    check(qr(x).r, qr(fine).r);
    check(svd(x).u, svd(fine).u);
    check(svd(x).s, svd(fine).s);
    check(svd(x).vh, svd(fine).vh);
    check(eigh(x).values, eigh(fine).values);
    check(eigh(x).vectors, eigh(fine).vectors);
    check(pinv(x), pinv(fine));
  }
}

void check_traced(Device device) {
  const Program program = [](const Arrays& in) {
    const NDArray a = symmetric(in[0]);
    const Qr parts = qr(sound(in[1]));
    const Svd values = svd(sound(in[1]));
    return Arrays{
        cholesky(a),
        solve(a, in[1]),
        inverse(a),
        slogdet(a).logabsdet,
        parts.q * parts.q,
        parts.r * parts.r,
        values.s,
        eigh(a).values,
        pinv(sound(in[1])),
        det(a) * 0.01};
  };
  check_everywhere(program, {numbers_of(1, {3, 3}, float32, device), numbers_of(2, {3, 2}, float32, device)}, {}, 1e-3);
}

// A function of one array, and its gradient under fixed heads, which is one too.
struct Differentiable {
  const char* name;
  std::function<NDArray(const NDArray&)> f;
  Shape shape = {2, 3, 3};
};

const std::vector<Differentiable> k_differentiable = {
    {"cholesky", [](const NDArray& x) { return cholesky(symmetric(x)); }},
    {"inverse", [](const NDArray& x) { return inverse(sound(x)); }},
    {"det", [](const NDArray& x) { return det(sound(x)) * 0.01; }},
    {"slogdet", [](const NDArray& x) { return slogdet(sound(x)).logabsdet; }},
    {"solve", [](const NDArray& x) { return solve(sound(x), x); }},
    {"triangular_solve", [](const NDArray& x) { return triangular_solve(sound(x), x, {.lower = false}); }},
    {"q", [](const NDArray& x) { return qr(sound(x)).q; }},
    {"r", [](const NDArray& x) { return qr(sound(x)).r; }},
    {"q of tall", [](const NDArray& x) { return qr(sound(x)).q; }, {4, 2}},
    {"r of tall", [](const NDArray& x) { return qr(sound(x)).r; }, {4, 2}},
    {"q of wide", [](const NDArray& x) { return qr(sound(x)).q; }, {2, 4}},
    {"r of wide", [](const NDArray& x) { return qr(sound(x)).r; }, {2, 4}},
    {"u", [](const NDArray& x) { return svd(sound(x)).u; }},
    {"s", [](const NDArray& x) { return svd(sound(x)).s; }},
    {"vh", [](const NDArray& x) { return svd(sound(x)).vh; }},
    {"u of tall", [](const NDArray& x) { return svd(sound(x)).u; }, {4, 2}},
    {"vh of tall", [](const NDArray& x) { return svd(sound(x)).vh; }, {4, 2}},
    {"u of wide", [](const NDArray& x) { return svd(sound(x)).u; }, {2, 4}},
    {"vh of wide", [](const NDArray& x) { return svd(sound(x)).vh; }, {2, 4}},
    {"values", [](const NDArray& x) { return eigh(symmetric(x)).values; }},
    {"vectors", [](const NDArray& x) { return eigh(symmetric(x)).vectors; }},
    {"pinv of tall", [](const NDArray& x) { return pinv(sound(x)); }, {4, 2}},
    {"pinv of wide", [](const NDArray& x) { return pinv(sound(x)); }, {2, 4}},
    {"lstsq", [](const NDArray& x) { return lstsq(sound(x), x); }, {4, 2}},
};

NDArray gradient_of(const std::function<NDArray(const NDArray&)>& f, const NDArray& x) {
  const autograd::RecordScope record;
  NDArray at = x;
  if (!autograd::on_tape(x)) {
    at = x.detach();
    at.attach_grad();
  }
  const NDArray y = f(at), head = random_array(y.shape(), 5, 0.5, 1.5, float64);
  return autograd::grad(std::vector{y}, std::vector{at}, std::vector{head}, {.create_graph = true})[0];
}

}  // namespace

TEST_CASE("Factors and solutions give the matrices back", "[linalg]") {
  check_solutions(cpu());
  check_factors(cpu());
  check_values(cpu());
}

TEST_CASE("Factors and solutions give the matrices back on a GPU", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_solutions(gpu());
  check_factors(gpu());
  check_values(gpu());
}

TEST_CASE("A matrix that is singular or not definite is a ValueError that names operator and matrix", "[linalg]") {
  check_refusals(cpu());
}

TEST_CASE("A GPU's singular matrices are ValueErrors too, and it goes on", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_refusals(gpu());
}

TEST_CASE("A matrix with NaN or an infinity gives NaN, and its neighbours what they give alone", "[linalg]") {
  check_not_finite(cpu());
}

TEST_CASE("A matrix with NaN or an infinity gives NaN on a GPU", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_not_finite(gpu());
}

TEST_CASE("Gradients of decompositions agree with finite differences, and so do gradients of these", "[linalg]") {
  for (const Differentiable& d : k_differentiable) {
    CAPTURE(d.name);
    const std::vector<NDArray> x{random_array(d.shape, 4, -1, 1, float64)};
    CHECK(gradient_differences([&](const auto& v) { return d.f(v[0]); }, x) == "");
    const GradientOptions loose{.tolerance = {1e-4, 1e-6}};
    CHECK(gradient_differences([&](const auto& v) { return gradient_of(d.f, v[0]); }, x, loose) == "");
  }
}

TEST_CASE("Where values are the same, or 0, gradients are numbers", "[linalg]") {
  for (const double scale : {1.0, 0.0}) {
    NDArray x = eye(3, zeros({}, {.dtype = float64})) * scale;
    x.attach_grad();
    {
      const autograd::RecordScope record;
      const Eigh parts = eigh(x);
      const Svd values = svd(x);
      const NDArray y = sum(matmul(parts.vectors * parts.values.expand_dims(0), parts.vectors.T())) +
                        sum(matmul(values.u * values.s.expand_dims(0), values.vh));
      y.backward();
    }
    CHECK(all(isfinite(x.grad())).item<bool>());
  }
}

TEST_CASE("Determinants and solutions are those that are known", "[linalg]") {
  const NDArray x = array(std::vector<double>{0, 2, 0, 1, 0, 0, 0, 0, -3}, {3, 3});
  CHECK(det(x).item<double>() == 6);
  CHECK(slogdet(x).sign.item<double>() == 1);
  CHECK(det(x.slice(0, 0, 2).slice(1, 0, 2)).item<double>() == -2);
  CHECK(det(zeros({2, 0, 0})).to_vector<float>() == std::vector<float>{1, 1});
  CHECK(slogdet(zeros({0, 0})).logabsdet.item<float>() == 0);
  CHECK(solve(x, array(std::vector<double>{4, 3, 6}, {3})).to_vector<double>() == std::vector<double>{3, 2, -2});
  CHECK(solve(x, ones({2, 3, 4})).shape() == Shape{2, 3, 4});
  const NDArray line = lstsq(ones({4, 2}), array(std::vector<float>{1, 2, 3, 6}, {4}));
  CHECK(differences(line, full({2}, 1.5), {1e-5, 0}) == "");
  const NDArray flat = pinv(ones({3, 3}, {.dtype = float64}));  // of rank 1
  CHECK(differences(flat, full({3, 3}, 1.0 / 9, {.dtype = float64}), {1e-12, 1e-12}) == "");
  CHECK(differences(pinv(x, 0.6), array(std::vector<double>{0, 0, 0, 0.5, 0, 0, 0, 0, -1.0 / 3}, {3, 3})) == "");
  // The worst of small matrices: what is left over is small although the solution is not exact.
  const NDArray count = arange(1, 9, 1, {.dtype = float64});
  const NDArray hilbert = reciprocal(count.expand_dims(1) + count.expand_dims(0) - 1), b = sum(hilbert, {1});
  CHECK(differences(matmul(hilbert, solve(hilbert, b)), b, {1e-12, 1e-12}) == "");
  CHECK(cholesky(hilbert).dtype() == float64);
}

TEST_CASE("Other types become float32, and what is no matrix is refused by name", "[linalg]") {
  for (const DType dtype : {float16, bfloat16, int32, bool_})
    CHECK(inverse(eye(2, zeros({}, {.dtype = dtype}))).dtype() == float32);
  CHECK(solve(eye(2, zeros({}, {.dtype = float64})), ones({2, 1}, {.dtype = float16})).dtype() == float64);
  for (const auto& f : {cholesky, inverse, det}) {
    CHECK_THROWS_AS(f(ones({2, 3}), {}), ShapeError);
    CHECK_THROWS_AS(f(ones({3}), {}), ShapeError);
    CHECK_THROWS_AS(f(NDArray(), {}), ValueError);
  }
  CHECK_THROWS_WITH(cholesky(ones({2, 3})), contains("cholesky: ") && contains("(2, 3)"));
  CHECK_THROWS_AS(qr(ones({})), ShapeError);
  CHECK_THROWS_AS(svd(ones({4})), ShapeError);
  CHECK_THROWS_AS(eigh(ones({4, 3})), ShapeError);
  CHECK_THROWS_AS(solve(ones({2, 2}), ones({3, 2})), ShapeError);
  CHECK_THROWS_AS(solve(ones({2, 2}), ones({3})), ShapeError);
  CHECK_THROWS_AS(solve(ones({2, 2, 2}), ones({3, 2, 2})), ShapeError);
  CHECK_THROWS_AS(triangular_solve(ones({2, 3}), ones({2, 2})), ShapeError);
  CHECK_THROWS_WITH(lstsq(ones({3, 2}), ones({2})), contains("lstsq: a right side"));
  for (const Shape& shape : {Shape{}, Shape{3}}) {  // whose rows are nowhere
    CHECK_THROWS_WITH(pinv(ones(shape)), contains("pinv: needs matrices"));
    CHECK_THROWS_WITH(lstsq(ones(shape), ones({3, 1})), contains("lstsq: needs matrices"));
  }
}

TEST_CASE("Decompositions have the same bits with 1, 2 and 4 workers", "[linalg]") {
  const auto bits = [](int workers) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const NDArray x = random_array({40, 7, 5}, 3);
    const Svd parts = svd(x);
    return std::vector{
        parts.u.to_vector<float>(), parts.vh.to_vector<float>(), inverse(sound(x.slice(1, 0, 5))).to_vector<float>()};
  };
  const auto one = bits(1);
  CHECK(bits(2) == one);
  CHECK(bits(4) == one);
}

TEST_CASE("Traced decompositions are those by hand, with their gradients", "[linalg]") {
  check_traced(cpu());
}

TEST_CASE("Traced decompositions are those by hand on a GPU", "[linalg][gpu]") {
  SLUICE_NEEDS_GPUS(1);
  check_traced(gpu());
}
