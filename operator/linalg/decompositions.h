#pragma once

#include <sluice/ndarray/ndarray.h>

// Matrices taken apart and equations solved, as numpy.linalg does it: of the last two axes, for each matrix of the axes
// before them. float32 and float64; other types become float32. On a CPU by LAPACK, on a GPU by cuSOLVER and cuBLAS,
// which load at first use: where one is missing the wait throws LibraryError, which says what to install. Gradients are
// made of these operators again, as theirs are. None of them blocks, but cuSOLVER's own calls for singular values and
// eigenvalues may wait for the GPU inside the task. Throws ShapeError for what is no square matrix where one is asked
// for, naming operator and shape. What only the numbers say is a ValueError at the wait that names operator and matrix.
// Of a matrix with NaN or an infinity cholesky, qr, svd, eigh, pinv, solve, inverse, det and slogdet are NaN, and what
// triangular_solve makes of such numbers follows from its sums: nothing hangs, nothing throws.
namespace sluice {

/// The lower triangular L with L L^T = x, for a symmetric positive definite x, of which the lower triangle is read; the
/// gradient is that of a symmetric matrix. ValueError at the wait for another x.
SLUICE_API NDArray cholesky(const NDArray& x, SourceLocation site = SourceLocation::current());

struct TriangularOptions {
  bool lower = true;           // the triangle of a that is read
  bool transpose = false;      // solves a^T y = b
  bool unit_diagonal = false;  // the diagonal is not read, and is 1
};
/// y with a y = b for a triangular matrix a; b is one column where it has one axis, otherwise matrices, and leading
/// axes broadcast. ValueError at the wait where a 0 stands on the diagonal.
SLUICE_API NDArray triangular_solve(
    const NDArray& a,
    const NDArray& b,
    const TriangularOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// y with a y = b for square matrices a; b as in triangular_solve(). ValueError at the wait for a singular matrix.
SLUICE_API NDArray solve(const NDArray& a, const NDArray& b, SourceLocation site = SourceLocation::current());
/// The inverses of square matrices. ValueError at the wait for a singular one.
SLUICE_API NDArray inverse(const NDArray& x, SourceLocation site = SourceLocation::current());

/// Determinants of square matrices; that of a 0 x 0 one is 1. The gradient needs the inverse.
SLUICE_API NDArray det(const NDArray& x, SourceLocation site = SourceLocation::current());
struct SignAndLogDet {
  NDArray sign;       // 1, -1, or 0 for a singular matrix
  NDArray logabsdet;  // then -infinity
};
/// Signs of determinants and logarithms of their magnitudes, where determinants themselves would not fit.
SLUICE_API SignAndLogDet slogdet(const NDArray& x, SourceLocation site = SourceLocation::current());

struct Qr {
  NDArray q;  // (m, k): orthonormal columns, k = min(m, n)
  NDArray r;  // (k, n): upper triangular
};
/// q r = x of shape (m, n). The gradient needs k columns of x that are independent, the first ones.
SLUICE_API Qr qr(const NDArray& x, SourceLocation site = SourceLocation::current());

struct Svd {
  NDArray u;   // (m, k): orthonormal columns, k = min(m, n)
  NDArray s;   // (k,): falling, none below 0
  NDArray vh;  // (k, n): orthonormal rows
};
/// u diag(s) vh = x of shape (m, n). Singular vectors of values that are the same, or 0, are not determined: they take
/// no part in the gradient.
SLUICE_API Svd svd(const NDArray& x, SourceLocation site = SourceLocation::current());

struct Eigh {
  NDArray values;   // (n,): rising
  NDArray vectors;  // (n, n): a column for each value
};
/// Eigenvalues and orthonormal eigenvectors of a symmetric matrix, of which the lower triangle is read; the gradient is
/// that of a symmetric matrix. Vectors of values that are the same take no part in it.
SLUICE_API Eigh eigh(const NDArray& x, SourceLocation site = SourceLocation::current());

/// The pseudo-inverse of Moore and Penrose; singular values of at most rcond times the largest count as 0. Without
/// rcond: as the precision of the type times the larger extent.
SLUICE_API NDArray pinv(const NDArray& x, double rcond = -1, SourceLocation site = SourceLocation::current());
/// The y of least length for which a y is closest to b: pinv(a, rcond) b. b as in triangular_solve().
SLUICE_API NDArray
lstsq(const NDArray& a, const NDArray& b, double rcond = -1, SourceLocation site = SourceLocation::current());

}  // namespace sluice
