#pragma once

#include <cstdint>
#include <limits>

#include <sluice/engine/fault_code.h>
#include <sluice/operator/operator.h>

// What decompositions are made of, on any device: steps over all matrices of a batch, or on a CPU over one. LAPACK and
// cuSOLVER count columns first, so they see the transpose of a matrix that lies row by row; what the steps of a library
// are told is what they see.
namespace sluice::detail {

/// What is taken of a matrix; elsewhere stands 0.
enum class Part : std::uint8_t { all, lower, upper, identity };
/// What becomes of a matrix that has a number which is none, or an infinity.
enum class WhenBad : std::uint8_t { kept, identity, nan };

/// `to`, row by row, from a matrix of any strides (elements).
struct Placement {
  const void* from = nullptr;
  void* to = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t from_batch = 0, from_row = 0, from_column = 0;
  Part part = Part::all;
  WhenBad when_bad = WhenBad::kept;
  const int* bad = nullptr;  // one a matrix, for when_bad

  /// What stands there then.
  template <class T>
  SLUICE_HD T at(std::int64_t matrix, std::int64_t row, std::int64_t column) const {
    const bool is_bad = when_bad != WhenBad::kept && bad[matrix] != 0;
    if (is_bad && when_bad == WhenBad::nan)
      return std::numeric_limits<T>::quiet_NaN();
    if (is_bad || part == Part::identity)
      return row == column ? T(1) : T(0);
    if ((part == Part::lower && column > row) || (part == Part::upper && column < row))
      return T(0);
    return static_cast<const T*>(from)[matrix * from_batch + row * from_row + column * from_column];
  }
};

/// Where determinants go; those that are not asked for are null.
struct Determinants {
  const void* lu = nullptr;
  const std::int64_t* pivots = nullptr;
  const int* bad = nullptr;
  std::int64_t n = 0;
  void* det = nullptr;
  void* sign = nullptr;
  void* logarithm = nullptr;
};

/// One run of a kernel: its arrays, scratch memory that lives as long, and the steps. A step is done when the next one
/// begins.
class MatrixSteps {
 public:
  explicit MatrixSteps(const KernelCall& call) : call_(call), dtype_(call.outputs[0].dtype) {}
  MatrixSteps(const MatrixSteps&) = delete;
  virtual ~MatrixSteps() = default;

  const KernelCall& call() const noexcept { return call_; }
  DType dtype() const noexcept { return dtype_; }
  /// How many matrices each step is for.
  virtual std::int64_t count() const noexcept = 0;
  /// The first of them in input or output i, which has so many elements for each.
  const void* input(std::size_t i, std::int64_t each) const { return moved(call_.inputs[i].data, each); }
  void* output(std::size_t i, std::int64_t each) const { return moved(call_.outputs[i].data, each); }
  /// So many numbers of the call's type for each matrix.
  void* numbers(std::int64_t each) { return scratch(each * count() * static_cast<std::int64_t>(size_of(dtype_))); }
  int* integers() { return static_cast<int*>(scratch(count() * static_cast<std::int64_t>(sizeof(int)))); }
  std::int64_t* pivots(std::int64_t n) {
    return static_cast<std::int64_t*>(scratch(n * count() * static_cast<std::int64_t>(sizeof(std::int64_t))));
  }

  virtual void place(const Placement& placement) = 0;
  /// Which matrices of so many elements have one that is not finite: one int each.
  virtual void find_bad(const void* matrices, std::int64_t each, int* bad) = 0;
  /// The first 0 of a diagonal, counted from 1, or 0: one int each.
  virtual void find_zero(const void* matrices, std::int64_t n, int* found) = 0;
  virtual void determinants(const Determinants& wanted) = 0;
  /// The task fails where an int is not 0.
  virtual void refuse(const int* info, FaultCode code) = 0;

  // As lapack.h says, for each matrix; no extent is 0.
  virtual void potrf(std::int64_t n, void* a, int* info) = 0;
  virtual void trsm(
      bool upper, bool transposed, bool unit_diagonal, std::int64_t m, std::int64_t n, const void* a, void* b) = 0;
  virtual void getrf(std::int64_t n, void* a, std::int64_t* pivots, int* info) = 0;
  virtual void getrs(
      bool transposed, std::int64_t n, std::int64_t columns, const void* a, const std::int64_t* pivots, void* b) = 0;
  virtual void geqrf(std::int64_t m, std::int64_t n, void* a, void* tau) = 0;
  /// Matrices of a follow each other as those of geqrf with n columns did.
  virtual void orgqr(std::int64_t m, std::int64_t n, std::int64_t k, void* a, const void* tau) = 0;
  virtual void gesvd(std::int64_t m, std::int64_t n, void* a, void* s, void* u, void* vt, int* info) = 0;
  virtual void syevd(std::int64_t n, void* a, void* w, int* info) = 0;

 protected:
  virtual void* scratch(std::int64_t bytes) = 0;
  /// The place of the first matrix of this run behind the first of the array.
  virtual std::int64_t first() const noexcept { return 0; }

 private:
  void* moved(void* data, std::int64_t each) const {
    return static_cast<char*>(data) + first() * each * static_cast<std::int64_t>(size_of(dtype_));
  }

  const KernelCall& call_;
  DType dtype_;
};

/// How many matrices the leading axes of an array hold.
std::int64_t matrices_of(const Shape& shape);

/// A decomposition, by steps.
using Decomposition = void (*)(MatrixSteps& steps);
void cholesky_steps(MatrixSteps& steps);
void triangular_solve_steps(MatrixSteps& steps);
void solve_steps(MatrixSteps& steps);
void inverse_steps(MatrixSteps& steps);
void det_steps(MatrixSteps& steps);
void slogdet_steps(MatrixSteps& steps);
void qr_steps(MatrixSteps& steps);
void svd_steps(MatrixSteps& steps);
void eigh_steps(MatrixSteps& steps);

/// Kernels run it: matrix by matrix on the workers of a CPU, all at once on a GPU.
void run_on_cpu(const KernelCall& call, Decomposition decomposition);
void run_on_gpu(const KernelCall& call, Decomposition decomposition);

struct TriangularAttributes {
  bool lower = true;
  bool transpose = false;
  bool unit_diagonal = false;

  template <class V>
  void visit(V&& v) {
    v.field("lower", lower);
    v.field("transpose", transpose);
    v.field("unit_diagonal", unit_diagonal);
  }
};

}  // namespace sluice::detail
