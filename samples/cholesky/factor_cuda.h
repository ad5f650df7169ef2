#pragma once

#include <memory>

#include <sluice/engine/engine.h>

namespace samples {

/// How a matrix is cut: tiles of `tile` rows and columns, and how many tiles of a column one product works on (0: all).
/// A Var a tile all the same. With `priority` the tasks that the next column waits for go first.
struct Tiling {
  int tile = 1024;
  int rows = 0;
  bool priority = true;
};

/// Tiled Cholesky factorisation (float64) on one GPU: each task is one call of cuSOLVER or cuBLAS. In builds with CUDA,
/// cuBLAS and cuSOLVER only.
class GpuCholesky {
 public:
  /// For symmetric matrices of n rows. Throws CudaError.
  GpuCholesky(sluice::Engine& engine, sluice::Device device, int n, const Tiling& tiling);
  GpuCholesky(const GpuCholesky&) = delete;
  GpuCholesky& operator=(const GpuCholesky&) = delete;
  /// Does not wait: no task may be left.
  ~GpuCholesky();

  /// Pushes the tasks that put the factor into the lower triangle of `matrix`, GPU memory, column by column; it must
  /// live until they are done, which `engine.wait_all()` says. A matrix that is not positive definite fails that wait
  /// with ValueError. Returns how many tasks there are.
  int push(double* matrix);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The same by cuSOLVER on the whole matrix.
class WholeGpuCholesky {
 public:
  WholeGpuCholesky(sluice::Device device, int n);
  WholeGpuCholesky(const WholeGpuCholesky&) = delete;
  WholeGpuCholesky& operator=(const WholeGpuCholesky&) = delete;
  ~WholeGpuCholesky();

  /// Enqueues it on a stream of its own.
  void start(double* matrix);
  /// Waits for it. Throws ValueError if the matrix was not positive definite.
  void wait();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// A square matrix in a GPU's memory, from and to the host. Each call blocks; throws CudaError.
class GpuMatrix {
 public:
  GpuMatrix(sluice::Device device, int n);
  GpuMatrix(const GpuMatrix&) = delete;
  GpuMatrix& operator=(const GpuMatrix&) = delete;
  ~GpuMatrix();
  double* data() const noexcept { return data_; }
  void assign(const double* values);
  void read_out(double* values) const;

 private:
  sluice::Device device_;
  std::size_t bytes_;
  double* data_ = nullptr;
};

}  // namespace samples
