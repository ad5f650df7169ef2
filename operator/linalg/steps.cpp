// Decompositions by steps. A matrix (m, n) that lies row by row is (n, m) to a library, the transpose of ours.
#include <algorithm>

#include <sluice/operator/linalg/steps.h>

namespace sluice::detail {

namespace {

std::int64_t rows_of(const TensorView& x) {
  return x.shape[x.shape.ndim() - 2];
}
std::int64_t columns_of(const TensorView& x) {
  return x.shape.back();
}

/// Matrices that lie row by row, as they are.
Placement plain(const void* from, void* to, std::int64_t rows, std::int64_t columns) {
  return {from, to, rows, columns, rows * columns, columns, 1};
}
/// Of matrices (columns, rows) the transposes (rows, columns).
Placement transposed(const void* from, void* to, std::int64_t rows, std::int64_t columns) {
  return {from, to, rows, columns, rows * columns, 1, rows};
}

Placement with(Placement placement, WhenBad when_bad, const int* bad) {
  placement.when_bad = when_bad;
  placement.bad = bad;
  return placement;
}
Placement with(Placement placement, Part part) {
  placement.part = part;
  return placement;
}

// In place of what a library might not come to an end with.
const int* make_sound(MatrixSteps& steps, void* matrices, std::int64_t rows, std::int64_t columns) {
  int* const bad = steps.integers();
  steps.find_bad(matrices, rows * columns, bad);
  steps.place(with(plain(matrices, matrices, rows, columns), WhenBad::identity, bad));
  return bad;
}

/// Input 0, factored as getrf sees it.
struct Factors {
  std::int64_t n;
  void* lu;
  std::int64_t* pivots;
  const int* bad;
  int* info;
};

Factors factored(MatrixSteps& steps) {
  const std::int64_t n = columns_of(steps.call().inputs[0]);
  Factors factors{n, steps.numbers(n * n), steps.pivots(n), nullptr, steps.integers()};
  steps.place(plain(steps.input(0, n * n), factors.lu, n, n));
  factors.bad = make_sound(steps, factors.lu, n, n);
  steps.getrf(n, factors.lu, factors.pivots, factors.info);
  return factors;
}

void determinants_of(MatrixSteps& steps, Determinants wanted) {
  wanted.n = columns_of(steps.call().inputs[0]);
  if (wanted.n > 0) {
    const Factors factors = factored(steps);
    wanted.lu = factors.lu;
    wanted.pivots = factors.pivots;
    wanted.bad = factors.bad;
  }
  steps.determinants(wanted);
}

}  // namespace

std::int64_t matrices_of(const Shape& shape) {
  std::int64_t count = 1;
  for (int axis = 0; axis + 2 < shape.ndim(); ++axis)
    count *= shape[axis];
  return count;
}

// The lower triangle is an upper one to the library, and U^T U there L L^T here.
void cholesky_steps(MatrixSteps& steps) {
  const std::int64_t n = columns_of(steps.call().inputs[0]);
  void* const y = steps.output(0, n * n);
  steps.place(with(plain(steps.input(0, n * n), y, n, n), Part::lower));
  const int* const bad = make_sound(steps, y, n, n);
  int* const info = steps.integers();
  steps.potrf(n, y, info);
  steps.refuse(info, FaultCode::indefinite);
  steps.place(with(plain(y, y, n, n), WhenBad::nan, bad));
}

// a y = b is y^T a^T = b^T, and the transposes are what the library sees.
void triangular_solve_steps(MatrixSteps& steps) {
  const auto& how = steps.call().attributes.as<TriangularAttributes>();
  const TensorView& b = steps.call().inputs[1];
  const std::int64_t n = rows_of(b), columns = columns_of(b);
  const void* const a = steps.input(0, n * n);
  void* const y = steps.output(0, n * columns);
  steps.place(plain(steps.input(1, n * columns), y, n, columns));
  steps.trsm(how.lower, how.transpose, how.unit_diagonal, columns, n, a, y);
  if (how.unit_diagonal)
    return;
  int* const zero = steps.integers();
  steps.find_zero(a, n, zero);
  steps.refuse(zero, FaultCode::singular);
}

void solve_steps(MatrixSteps& steps) {
  const TensorView& b = steps.call().inputs[1];
  const std::int64_t n = rows_of(b), columns = columns_of(b);
  const Factors factors = factored(steps);
  steps.refuse(factors.info, FaultCode::singular);
  void* const turned = steps.numbers(n * columns);
  steps.place(transposed(steps.input(1, n * columns), turned, columns, n));
  steps.getrs(true, n, columns, factors.lu, factors.pivots, turned);
  steps.place(with(transposed(turned, steps.output(0, n * columns), n, columns), WhenBad::nan, factors.bad));
}

// The transpose of the transpose's inverse.
void inverse_steps(MatrixSteps& steps) {
  const Factors factors = factored(steps);
  const std::int64_t n = factors.n;
  steps.refuse(factors.info, FaultCode::singular);
  void* const y = steps.output(0, n * n);
  steps.place(with(plain(nullptr, y, n, n), Part::identity));
  steps.getrs(false, n, n, factors.lu, factors.pivots, y);
  steps.place(with(plain(y, y, n, n), WhenBad::nan, factors.bad));
}

void det_steps(MatrixSteps& steps) {
  Determinants wanted;
  wanted.det = steps.output(0, 1);
  determinants_of(steps, wanted);
}

void slogdet_steps(MatrixSteps& steps) {
  Determinants wanted;
  wanted.sign = steps.output(0, 1);
  wanted.logarithm = steps.output(1, 1);
  determinants_of(steps, wanted);
}

void qr_steps(MatrixSteps& steps) {
  const TensorView& x = steps.call().inputs[0];
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  void* const turned = steps.numbers(m * n);
  void* const tau = steps.numbers(k);
  steps.place(transposed(steps.input(0, m * n), turned, n, m));
  const int* const bad = make_sound(steps, turned, n, m);
  steps.geqrf(m, n, turned, tau);
  Placement r{turned, steps.output(1, k * n), k, n, m * n, 1, m};
  steps.place(with(with(r, Part::upper), WhenBad::nan, bad));
  steps.orgqr(m, n, k, turned, tau);
  const Placement q{turned, steps.output(0, m * k), m, k, m * n, 1, m};
  steps.place(with(q, WhenBad::nan, bad));
}

// The library takes tall matrices: a wide one as it lies is one there, whose singular vectors change sides.
void svd_steps(MatrixSteps& steps) {
  const TensorView& x = steps.call().inputs[0];
  const std::int64_t m = rows_of(x), n = columns_of(x), k = std::min(m, n);
  const bool wide = m < n;
  void* const matrix = steps.numbers(m * n);
  const void* const from = steps.input(0, m * n);
  steps.place(wide ? plain(from, matrix, m, n) : transposed(from, matrix, n, m));
  const int* const bad = wide ? make_sound(steps, matrix, m, n) : make_sound(steps, matrix, n, m);
  void *const u = steps.output(0, m * k), *const s = steps.output(1, k), *const vh = steps.output(2, k * n);
  int* const info = steps.integers();
  if (wide) {
    steps.gesvd(n, m, matrix, s, vh, u, info);
    steps.place(with(plain(u, u, m, k), WhenBad::nan, bad));
    steps.place(with(plain(vh, vh, k, n), WhenBad::nan, bad));
  } else {
    void *const left = steps.numbers(m * k), *const right = steps.numbers(k * n);
    steps.gesvd(m, n, matrix, s, left, right, info);
    steps.place(with(transposed(left, u, m, k), WhenBad::nan, bad));
    steps.place(with(transposed(right, vh, k, n), WhenBad::nan, bad));
  }
  steps.refuse(info, FaultCode::not_converged);
  steps.place(with(plain(s, s, 1, k), WhenBad::nan, bad));
}

void eigh_steps(MatrixSteps& steps) {
  const std::int64_t n = columns_of(steps.call().inputs[0]);
  void *const w = steps.output(0, n), *const vectors = steps.output(1, n * n), *const rows = steps.numbers(n * n);
  steps.place(with(plain(steps.input(0, n * n), rows, n, n), Part::lower));
  const int* const bad = make_sound(steps, rows, n, n);
  int* const info = steps.integers();
  steps.syevd(n, rows, w, info);
  steps.refuse(info, FaultCode::not_converged);
  steps.place(with(transposed(rows, vectors, n, n), WhenBad::nan, bad));
  steps.place(with(plain(w, w, 1, n), WhenBad::nan, bad));
}

}  // namespace sluice::detail
