#pragma once

#include <sluice/engine/engine.h>

namespace samples {

/// A symmetric matrix of size n, column by column; its lower triangle counts.
struct Matrix {
  double* data = nullptr;
  int n = 0;
};

/// Pushes the tasks that put the Cholesky factor into the lower triangle of `matrix`, in tiles of `tile` rows and
/// columns; `matrix` must live until they are done, which `engine.wait_all()` says. With `priority` the tasks that the
/// next column of tiles waits for go first. A matrix that is not positive definite fails that wait with ValueError.
void push_cholesky(sluice::Engine& engine, Matrix matrix, int tile, bool priority);

/// The same by LAPACK's dpotrf on the whole matrix, by as many threads as OpenBLAS was told. Throws ValueError if the
/// matrix is not positive definite.
void whole_cholesky(Matrix matrix);

/// How many threads OpenBLAS uses for one call, from now on.
void set_blas_threads(int threads);

}  // namespace samples
