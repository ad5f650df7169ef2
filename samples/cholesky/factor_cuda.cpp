#include "samples/cholesky/factor_cuda.h"

#include <algorithm>
#include <vector>

#include "samples/cholesky/library_cuda.h"

namespace samples {

using namespace sluice;

namespace {

// Scalars of cuBLAS calls, which read them when they are called.
constexpr double k_one = 1, k_minus_one = -1;

/// A rectangle of the matrix.
struct Block {
  double* data;
  int rows, columns;
};

void solve(const Queue& queue, const double* triangle, Block block, int stride) {
  check(
      cublasDtrsm(
          queue.slot<Blas>().handle(),
          CUBLAS_SIDE_RIGHT,
          CUBLAS_FILL_MODE_LOWER,
          CUBLAS_OP_T,
          CUBLAS_DIAG_NON_UNIT,
          block.rows,
          block.columns,
          &k_one,
          triangle,
          stride,
          block.data,
          stride),
      "cublasDtrsm");
}

void subtract_square(const Queue& queue, double* to, Block from, int stride) {
  check(
      cublasDsyrk(
          queue.slot<Blas>().handle(),
          CUBLAS_FILL_MODE_LOWER,
          CUBLAS_OP_N,
          from.rows,
          from.columns,
          &k_minus_one,
          from.data,
          stride,
          &k_one,
          to,
          stride),
      "cublasDsyrk");
}

void subtract_product(const Queue& queue, double* to, Block left, Block right, int stride) {
  check(
      cublasDgemm(
          queue.slot<Blas>().handle(),
          CUBLAS_OP_N,
          CUBLAS_OP_T,
          left.rows,
          right.rows,
          left.columns,
          &k_minus_one,
          left.data,
          stride,
          right.data,
          stride,
          &k_one,
          to,
          stride),
      "cublasDgemm");
}

}  // namespace

struct GpuCholesky::State {
  Engine& engine;
  Device device;
  int n, tile, rows;
  bool priority;
  int count = (n + tile - 1) / tile;
  std::vector<Var> vars = {};
  Var outcome = engine.new_var();
  LibraryOwned<int*, cudaFree> pivots = {};  // what cuSOLVER says of each diagonal tile
  LibraryOwned<int*, cudaFreeHost> outcomes = {};
  double* matrix = nullptr;
  int tasks = 0;

  const Var& var(int i, int j) const { return vars[static_cast<std::size_t>(i * count + j)]; }
  std::size_t pivot_bytes() const { return static_cast<std::size_t>(count) * sizeof(int); }
  int extent(int i) const { return std::min(tile, n - i * tile); }
  /// Tiles [first, last) of column j.
  Block block(int first, int last, int j) const {
    double* data = matrix + static_cast<std::ptrdiff_t>(j) * tile * n + static_cast<std::ptrdiff_t>(first) * tile;
    return {data, std::min(last * tile, n) - first * tile, extent(j)};
  }
  int end_of_group(int first) const { return rows == 0 ? count : std::min(first + rows, count); }

  /// A task of one library call: not capturable, since tasks of a batch would share the scratch memory of one handle.
  template <class Body>
  void push(TaskName name, Priority urgency, AccessList access, Body body) {
    const Priority used = priority ? urgency : Priority::normal;
    engine.push(
        {.name = std::move(name), .device = device, .access = std::move(access), .priority = used}, std::move(body));
    ++tasks;
  }
  void push_panel(int k);
  void push_column(int k, int j);
  void push_check();
};

void GpuCholesky::State::push_panel(int k) {
  const Block diagonal = block(k, k + 1, k);
  const int stride = n;
  push("potrf", Priority::urgent, {write(var(k, k))}, [diagonal, stride, info = pivots.get() + k](Queue queue) {
    queue.slot<Solver>().factor(diagonal.data, diagonal.rows, stride, info);
  });
  for (int first = k + 1; first < count; first = end_of_group(first)) {
    AccessList access{read(var(k, k))};
    for (int i = first; i < end_of_group(first); ++i)
      access.push_back(write(var(i, k)));
    const Block below = block(first, end_of_group(first), k);
    push("trsm", Priority::high, access, [triangle = diagonal.data, below, stride](Queue queue) {
      solve(queue, triangle, below, stride);
    });
  }
}

void GpuCholesky::State::push_column(int k, int j) {
  const Priority urgency = j == k + 1 ? Priority::high : Priority::normal;  // the next panel is made of this column
  const Block right = block(j, j + 1, k);
  const int stride = n;
  push("syrk", urgency, {read(var(j, k)), write(var(j, j))}, [to = block(j, j + 1, j).data, right, stride](Queue q) {
    subtract_square(q, to, right, stride);
  });
  for (int first = j + 1; first < count; first = end_of_group(first)) {
    AccessList access{read(var(j, k))};
    for (int i = first; i < end_of_group(first); ++i) {
      access.push_back(read(var(i, k)));
      access.push_back(write(var(i, j)));
    }
    const Block left = block(first, end_of_group(first), k);
    push("gemm", urgency, access, [to = block(first, first + 1, j).data, left, right, stride](Queue queue) {
      subtract_product(queue, to, left, right, stride);
    });
  }
}

// A task can only fail on the CPU for what a kernel has found.
void GpuCholesky::State::push_check() {
  AccessList access{out(outcome)};
  for (int k = 0; k < count; ++k)
    access.push_back(read(var(k, k)));
  engine.push(
      {.name = "copy pivots", .device = device, .access = access, .stream = StreamKind::copy_out},
      [to = outcomes.get(), from = pivots.get(), bytes = pivot_bytes()](Queue queue) {
        const auto stream = static_cast<cudaStream_t>(queue.stream());
        check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
      });
  engine.push({.name = "check pivots", .access = {read(outcome)}}, [info = outcomes.get(), last = count, size = tile] {
    for (int k = 0; k < last; ++k) {
      require(info[k] >= 0, [&] { return message("dpotrf: argument ", -info[k], " is wrong"); });
      require(info[k] == 0, [&] {
        return message("the matrix is not positive definite: see row ", k * size + info[k] - 1);
      });
    }
  });
  tasks += 2;
}

GpuCholesky::GpuCholesky(Engine& engine, Device device, int n, const Tiling& tiling)
    : state_(new State{engine, device, n, tiling.tile, tiling.rows, tiling.priority}) {
  for (int i = 0; i < state_->count * state_->count; ++i)
    state_->vars.push_back(engine.new_var({.home = device}));
  void *there = nullptr, *here = nullptr;
  check(cudaSetDevice(device.index), "cudaSetDevice");
  check(cudaMalloc(&there, state_->pivot_bytes()), "cudaMalloc");
  state_->pivots.reset(static_cast<int*>(there));
  check(cudaHostAlloc(&here, state_->pivot_bytes(), cudaHostAllocPortable), "cudaHostAlloc");
  state_->outcomes.reset(static_cast<int*>(here));
}

GpuCholesky::~GpuCholesky() = default;

int GpuCholesky::push(double* matrix) {
  state_->matrix = matrix;
  state_->tasks = 0;
  for (int k = 0; k < state_->count; ++k) {
    state_->push_panel(k);
    for (int j = k + 1; j < state_->count; ++j)
      state_->push_column(k, j);
  }
  state_->push_check();
  return state_->tasks;
}

struct WholeGpuCholesky::State {
  int n;
  LibraryOwned<cudaStream_t, cudaStreamDestroy> stream = {};
  std::unique_ptr<Solver> solver = {};
  LibraryOwned<cusolverDnParams_t, cusolverDnDestroyParams> parameters = {};
  GpuScratch scratch = {};
  std::vector<char> host_scratch = {};
  LibraryOwned<int*, cudaFree> info = {};
};

WholeGpuCholesky::WholeGpuCholesky(Device device, int n) : state_(new State{n}) {
  check(cudaSetDevice(device.index), "cudaSetDevice");
  cudaStream_t stream = nullptr;
  cusolverDnParams_t parameters = nullptr;
  void* info = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  state_->stream.reset(stream);
  state_->solver = std::make_unique<Solver>(stream);
  check(cusolverDnCreateParams(&parameters), "cusolverDnCreateParams");
  state_->parameters.reset(parameters);
  check(cudaMalloc(&info, sizeof(int)), "cudaMalloc");
  state_->info.reset(static_cast<int*>(info));
}

WholeGpuCholesky::~WholeGpuCholesky() = default;

void WholeGpuCholesky::start(double* matrix) {
  State& s = *state_;
  const auto lower = CUBLAS_FILL_MODE_LOWER;
  std::size_t there = 0, here = 0;
  check(
      cusolverDnXpotrf_bufferSize(
          s.solver->handle(), s.parameters.get(), lower, s.n, CUDA_R_64F, matrix, s.n, CUDA_R_64F, &there, &here),
      "cusolverDnXpotrf_bufferSize");
  s.host_scratch.resize(here + 1);
  check(
      cusolverDnXpotrf(
          s.solver->handle(),
          s.parameters.get(),
          lower,
          s.n,
          CUDA_R_64F,
          matrix,
          s.n,
          CUDA_R_64F,
          s.scratch.at_least(there),
          there,
          s.host_scratch.data(),
          here,
          s.info.get()),
      "cusolverDnXpotrf");
}

void WholeGpuCholesky::wait() {
  check(cudaStreamSynchronize(state_->stream.get()), "cudaStreamSynchronize");
  int info = -1;
  check(cudaMemcpy(&info, state_->info.get(), sizeof info, cudaMemcpyDeviceToHost), "cudaMemcpy");
  require(info == 0, [&] { return message("the matrix is not positive definite: see row ", info - 1); });
}

GpuMatrix::GpuMatrix(Device device, int n)
    : device_(device), bytes_(static_cast<std::size_t>(n) * static_cast<std::size_t>(n) * sizeof(double)) {
  void* memory = nullptr;
  check(cudaSetDevice(device.index), "cudaSetDevice");
  check(cudaMalloc(&memory, bytes_), "cudaMalloc");
  data_ = static_cast<double*>(memory);
}

GpuMatrix::~GpuMatrix() {
  cudaFree(data_);
}

void GpuMatrix::assign(const double* values) {
  check(cudaMemcpy(data_, values, bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
  check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
}

void GpuMatrix::read_out(double* values) const {
  check(cudaMemcpy(values, data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
}

}  // namespace samples
