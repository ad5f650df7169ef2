#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <limits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/linalg/determinant.h>
#include <sluice/operator/linalg/lapack.h>
#include <sluice/operator/linalg/small_cpu.h>
#include <sluice/operator/linalg/steps.h>

namespace sluice::detail {

namespace {

template <class F>
void by_type(DType dtype, F&& f) {
  dtype == DType::float64 ? f.template operator()<double>() : f.template operator()<float>();
}

/// (rows, columns), of which neighbours of a column lie side by side: in squares whose lines stay in a cache.
template <class T>
void turn(const T* from, std::int64_t step, std::int64_t rows, std::int64_t columns, T* to) {
  constexpr std::int64_t k_side = 16;
  for (std::int64_t row = 0; row < rows; row += k_side) {
    const std::int64_t height = std::min(k_side, rows - row);
    for (std::int64_t column = 0; column < columns; column += k_side) {
      const std::int64_t width = std::min(k_side, columns - column);
      for (std::int64_t i = row; i < row + height; ++i) {
        for (std::int64_t j = column; j < column + width; ++j)
          to[i * columns + j] = from[j * step + i];
      }
    }
  }
}

/// One matrix after the other, with the scratch memory of the first.
class StepsOnCpu final : public MatrixSteps {
 public:
  StepsOnCpu(const KernelCall& call, std::int64_t& fault) : MatrixSteps(call), fault_(fault) {}

  void begin(std::int64_t matrix) {
    matrix_ = matrix;
    used_ = 0;
  }

  std::int64_t count() const noexcept override { return 1; }

  void place(const Placement& p) override {
    const bool is_bad = p.when_bad != WhenBad::kept && p.bad[0] != 0;
    by_type(dtype(), [&]<class T>() {
      T* to = static_cast<T*>(p.to);
      if (!is_bad && p.part == Part::all && p.from_row == p.columns && p.from_column == 1) {
        if (p.from != p.to)
          std::copy_n(static_cast<const T*>(p.from), p.rows * p.columns, to);
        return;
      }
      if (!is_bad && p.part == Part::all && p.from_row == 1)
        return turn(static_cast<const T*>(p.from), p.from_column, p.rows, p.columns, to);
      for (std::int64_t row = 0; row < p.rows; ++row) {
        for (std::int64_t column = 0; column < p.columns; ++column)
          *to++ = p.at<T>(0, row, column);
      }
    });
  }
  void find_bad(const void* matrix, std::int64_t each, int* bad) override {
    by_type(dtype(), [&]<class T>() {
      const T* const x = static_cast<const T*>(matrix);
      int any = 0;
      for (std::int64_t i = 0; i < each; ++i)
        any |= !(std::abs(x[i]) <= std::numeric_limits<T>::max());
      *bad = any;
    });
  }
  void find_zero(const void* matrix, std::int64_t n, int* found) override {
    by_type(dtype(), [&]<class T>() { *found = first_zero(static_cast<const T*>(matrix), n); });
  }
  void determinants(const Determinants& wanted) override {
    by_type(dtype(), [&]<class T>() { write_determinant<T>(wanted, 0); });
  }
  void refuse(const int* info, FaultCode code) override {
    if (*info != 0 && fault_ == 0)
      fault_ = static_cast<std::int64_t>(code) << 32 | *info;
  }

  void potrf(std::int64_t n, void* a, int* info) override {
    if (n > k_small_factors) {
      *info = lapack_potrf(dtype(), n, a);
      return;
    }
    by_type(dtype(), [&]<class T>() { *info = root_small(static_cast<T*>(a), n); });
  }
  void trsm(bool upper, bool transposed, bool unit_diagonal, std::int64_t m, std::int64_t n, const void* a, void* b)
      override {
    lapack_trsm(dtype(), upper, transposed, unit_diagonal, m, n, a, b);
  }
  void getrf(std::int64_t n, void* a, std::int64_t* pivots, int* info) override {
    if (n > k_small_factors) {
      *info = lapack_getrf(dtype(), n, a, pivots);
      return;
    }
    by_type(dtype(), [&]<class T>() { *info = factor_small(static_cast<T*>(a), n, pivots); });
  }
  void getrs(bool transposed, std::int64_t n, std::int64_t columns, const void* a, const std::int64_t* pivots, void* b)
      override {
    lapack_getrs(dtype(), transposed, n, columns, a, pivots, b);
  }
  void geqrf(std::int64_t m, std::int64_t n, void* a, void* tau) override { lapack_geqrf(dtype(), m, n, a, tau); }
  void orgqr(std::int64_t m, std::int64_t, std::int64_t k, void* a, const void* tau) override {
    lapack_orgqr(dtype(), m, k, a, tau);
  }
  void gesvd(std::int64_t m, std::int64_t n, void* a, void* s, void* u, void* vt, int* info) override {
    *info = lapack_gesvd(dtype(), m, n, a, s, u, vt);
  }
  void syevd(std::int64_t n, void* a, void* w, int* info) override { *info = lapack_syevd(dtype(), n, a, w); }

 protected:
  void* scratch(std::int64_t bytes) override {
    if (used_ == memory_.size())
      memory_.emplace_back(static_cast<std::size_t>(bytes) / sizeof(std::max_align_t) + 1);
    return memory_[used_++].data();
  }
  std::int64_t first() const noexcept override { return matrix_; }

 private:
  std::int64_t& fault_;
  std::int64_t matrix_ = 0;
  std::size_t used_ = 0;
  std::deque<std::vector<std::max_align_t>> memory_;
};

}  // namespace

void run_on_cpu(const KernelCall& call, Decomposition decomposition) {
  lapack_library().require(call.op.name);
  const Shape& shape = call.inputs[0].shape;
  const std::int64_t count = matrices_of(shape);
  // Of small matrices some are worth another thread.
  const std::int64_t n = shape.back(), grain = 1 + 20000 / (1 + n * n * n);
  std::vector<std::int64_t> faults(static_cast<std::size_t>(count), 0);
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    std::int64_t fault = 0;
    StepsOnCpu steps(call, fault);
    for (std::int64_t matrix = begin; matrix < end; ++matrix) {
      fault = 0;
      steps.begin(matrix);
      decomposition(steps);
      faults[static_cast<std::size_t>(matrix)] = fault;
    }
  });
  for (std::int64_t matrix = 0; matrix < count; ++matrix) {
    if (const std::int64_t fault = faults[static_cast<std::size_t>(matrix)]; fault != 0) {
      const auto code = static_cast<FaultCode>(fault >> 32);
      throw ValueError(message(call.op.name, ": ", matrix_fault(code, matrix, fault & 0xffffffff)));
    }
  }
}

}  // namespace sluice::detail
