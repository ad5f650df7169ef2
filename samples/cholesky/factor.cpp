#include "samples/cholesky/factor.h"

#include <algorithm>
#include <cblas.h>
#include <lapacke.h>
#include <vector>

namespace samples {

using namespace sluice;

namespace {

/// The tiles of the lower triangle: where they lie, and the Var of each.
class Tiles {
 public:
  Tiles(Engine& engine, Matrix matrix, int tile) : matrix_(matrix), tile_(tile), count_((matrix.n + tile - 1) / tile) {
    for (int i = 0; i < count_ * count_; ++i)
      vars_.push_back(engine.new_var());
  }

  int count() const noexcept { return count_; }
  int stride() const noexcept { return matrix_.n; }
  /// Rows of the tiles in row i, which is columns in column i; the last ones may have fewer.
  int rows(int i) const noexcept { return std::min(tile_, matrix_.n - i * tile_); }
  double* at(int i, int j) const noexcept {
    return matrix_.data + static_cast<std::ptrdiff_t>(j) * tile_ * matrix_.n + static_cast<std::ptrdiff_t>(i) * tile_;
  }
  const Var& var(int i, int j) const noexcept { return vars_[static_cast<std::size_t>(i * count_ + j)]; }

 private:
  Matrix matrix_;
  int tile_, count_;
  std::vector<Var> vars_;
};

void factor_in_place(double* a, int n, int stride, int first_row) {
  const int info = LAPACKE_dpotrf_work(LAPACK_COL_MAJOR, 'L', n, a, stride);
  require(info >= 0, [&] { return message("dpotrf: argument ", -info, " is wrong"); });
  require(info == 0, [&] { return message("the matrix is not positive definite: see row ", first_row + info - 1); });
}

}  // namespace

void push_cholesky(Engine& engine, Matrix matrix, int tile, bool priority) {
  const Tiles t(engine, matrix, tile);
  const int stride = t.stride();
  const Priority first = priority ? Priority::urgent : Priority::normal;
  const Priority second = priority ? Priority::high : Priority::normal;
  for (int k = 0; k < t.count(); ++k) {
    double* kk = t.at(k, k);
    const int nk = t.rows(k);
    engine.push({.name = "potrf", .access = {write(t.var(k, k))}, .priority = first}, [kk, nk, stride, k, tile] {
      factor_in_place(kk, nk, stride, k * tile);
    });
    for (int i = k + 1; i < t.count(); ++i) {
      double* ik = t.at(i, k);
      const int ni = t.rows(i);
      engine.push(
          {.name = "trsm", .access = {read(t.var(k, k)), write(t.var(i, k))}, .priority = second},
          [kk, ik, ni, nk, stride] {
            cblas_dtrsm(
                CblasColMajor, CblasRight, CblasLower, CblasTrans, CblasNonUnit, ni, nk, 1, kk, stride, ik, stride);
          });
    }
    for (int j = k + 1; j < t.count(); ++j) {
      double *jk = t.at(j, k), *jj = t.at(j, j);
      const int nj = t.rows(j);
      const Priority here = j == k + 1 ? second : Priority::normal;  // the next step starts with this column
      engine.push(
          {.name = "syrk", .access = {read(t.var(j, k)), write(t.var(j, j))}, .priority = here},
          [jk, jj, nj, nk, stride] {
            cblas_dsyrk(CblasColMajor, CblasLower, CblasNoTrans, nj, nk, -1, jk, stride, 1, jj, stride);
          });
      for (int i = j + 1; i < t.count(); ++i) {
        double *ik = t.at(i, k), *ij = t.at(i, j);
        const int ni = t.rows(i);
        engine.push(
            {.name = "gemm", .access = {read(t.var(i, k)), read(t.var(j, k)), write(t.var(i, j))}, .priority = here},
            [=] {
              cblas_dgemm(
                  CblasColMajor, CblasNoTrans, CblasTrans, ni, nj, nk, -1, ik, stride, jk, stride, 1, ij, stride);
            });
      }
    }
  }
}

void whole_cholesky(Matrix matrix) {
  factor_in_place(matrix.data, matrix.n, matrix.n, 0);
}

void set_blas_threads(int threads) {
  openblas_set_num_threads(threads);
}

}  // namespace samples
