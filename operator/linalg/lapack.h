#pragma once

#include <cstdint>

#include <sluice/ndarray/dtype.h>
#include <sluice/operator/library/shared_library.h>

// LAPACK's functions for one matrix of float32 or float64, columns first and without gaps. What is given back is
// LAPACK's info where it is above 0, otherwise 0. Once lapack_library() is loaded, for any thread.
namespace sluice::detail {

/// OpenBLAS where it is, otherwise whatever else brings LAPACK. OpenBLAS that nobody else has loaded works in the
/// calling thread alone: how its sums are ordered would follow its threads.
SharedLibrary& lapack_library();

/// a = U^T U, of which the upper triangle is read and written.
int lapack_potrf(DType dtype, std::int64_t n, void* a);
/// b (m, n) becomes b times the inverse of the triangular a, or of its transpose.
void lapack_trsm(
    DType dtype,
    bool upper,
    bool transposed,
    bool unit_diagonal,
    std::int64_t m,
    std::int64_t n,
    const void* a,
    void* b);
int lapack_getrf(DType dtype, std::int64_t n, void* a, std::int64_t* pivots);
/// b (n, columns) becomes the solution, from what getrf left.
void lapack_getrs(
    DType dtype,
    bool transposed,
    std::int64_t n,
    std::int64_t columns,
    const void* a,
    const std::int64_t* pivots,
    void* b);
/// a (m, n); tau of the lesser extent.
void lapack_geqrf(DType dtype, std::int64_t m, std::int64_t n, void* a, void* tau);
/// The first k columns of a, with m rows, become those of Q.
void lapack_orgqr(DType dtype, std::int64_t m, std::int64_t k, void* a, const void* tau);
/// a (m, n) with m >= n, lost: u (m, n), s (n,), vt (n, n).
int lapack_gesvd(DType dtype, std::int64_t m, std::int64_t n, void* a, void* s, void* u, void* vt);
/// a, of which the upper triangle is read, becomes its vectors, one a column; w its values.
int lapack_syevd(DType dtype, std::int64_t n, void* a, void* w);

}  // namespace sluice::detail
