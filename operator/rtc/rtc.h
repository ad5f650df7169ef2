#pragma once

// Kernels of your own from CUDA C++ that NVRTC compiles while the program runs (MXNet's mx.rtc).
#include <concepts>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <sluice/engine/export.h>
#include <sluice/engine/source_location.h>
#include <sluice/ndarray/ndarray.h>
#include <sluice/ndarray/scalar.h>

namespace sluice::rtc {

/// Extents of a grid, in blocks, or of a block, in threads.
struct Extents {
  unsigned x = 1, y = 1, z = 1;
};

/// How many threads a launch has, and the bytes of shared memory that it asks for beside what the source declares.
struct LaunchShape {
  Extents grid = {};
  Extents block = {};
  std::size_t shared_bytes = 0;
};

/// What a kernel is given: an array, of which it gets the first element's address, or a number.
class Argument {
 public:
  Argument(const NDArray& array) : array_(array) {}  // NOLINT: converts by design
  template <class T>
  requires std::constructible_from<Scalar, T> Argument(T number) : number_(number) {}  // NOLINT: converts by design

  bool is_array() const noexcept { return array_.defined(); }
  const NDArray& array() const noexcept { return array_; }
  Scalar number() const noexcept { return number_; }

 private:
  NDArray array_;
  Scalar number_ = 0;
};

/// A kernel of a module; copies are the same. Any thread may launch it.
class SLUICE_API CudaKernel {
 public:
  const std::string& name() const noexcept;

  /// Pushes a task on the GPU of the arrays (the first GPU if there are none) that runs the kernel: it reads the arrays
  /// of const parameters and reads and writes the others, in order with all other tasks on them. Returns at once, but
  /// for the first launch on a GPU of another kind than the first one, which compiles. A kernel whose grid is empty in
  /// some direction is not run. Arrays lie row by row without gaps; of those that only are read a copy is taken where
  /// they do not. It is off the tape: call it in an autograd::Function to give it a gradient.
  /// Throws ValueError for another number of arguments, a number in an array's place and the other way round, one that
  /// an integer type does not hold, arrays with gaps to be written, read-only or without memory, blocks, grids and
  /// shared memory that are empty or larger than the GPU takes; DTypeError for arrays of other types than the signature
  /// says; DeviceError for arrays on a CPU or of several GPUs; AutogradError where it would write an array on the tape
  /// while recording; what CudaModule and Engine::push throw. What goes wrong in the kernel is the arrays' error.
  void launch(
      std::initializer_list<Argument> arguments,
      const LaunchShape& shape,
      SourceLocation site = SourceLocation::current()) const {
    launch(std::span(arguments.begin(), arguments.size()), shape, site);
  }
  void launch(
      std::span<const Argument> arguments,
      const LaunchShape& shape,
      SourceLocation site = SourceLocation::current()) const;

 private:
  friend class CudaModule;
  struct Kernel;
  explicit CudaKernel(std::shared_ptr<Kernel> kernel) noexcept : kernel_(std::move(kernel)) {}
  std::shared_ptr<Kernel> kernel_;
};

/// CUDA source, compiled for this process' GPUs, and kept on disk as fused kernels are. Its code stays loaded to the
/// end of the process; modules of the same source and options share it.
class SLUICE_API CudaModule {
 public:
  /// Compiles for the first GPU. `options` are NVRTC's ("--use_fast_math", "-I/usr/local/cuda/include"). Throws
  /// ValueError, with NVRTC's words and lines ("rtc.cu(3): error: .."), for a source that does not compile;
  /// UnsupportedError where there is no GPU, no NVRTC, or none for this GPU; LibraryError where NVRTC fails, CudaError.
  explicit CudaModule(std::string source, std::vector<std::string> options = {});

  /// Its kernel of that name, which is declared extern "C" __global__. `signature` is its list of parameters, of
  /// numbers and of elements of arrays: "const float* x, float* y, int n". Throws ValueError where there is no such
  /// kernel, for what is no such list, and where CUDA knows the kernel to have other parameters; DTypeError for types
  /// that arrays have not.
  CudaKernel kernel(std::string_view name, std::string_view signature) const;

 private:
  struct Module;
  std::shared_ptr<const Module> module_;
};

}  // namespace sluice::rtc
