// Steps over small matrices: a block takes one into its shared memory. cuSOLVER's calls take one matrix each and 10 to
// 50 us, so that thousands of small ones took a thousand times as long as they are worth.
#include <algorithm>
#include <cmath>

#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/linalg/steps_gpu.h>

namespace sluice::detail {

namespace {

constexpr int k_lanes = 32;
constexpr unsigned k_all_lanes = 0xffffffffu;

/// Where this thread stands in its block.
struct Here {
  int warp = static_cast<int>(threadIdx.x) / k_lanes, lane = static_cast<int>(threadIdx.x) % k_lanes;
  int warps = static_cast<int>(blockDim.x) / k_lanes;

  /// Calls f(row, column) for all of them from `first` on, neighbouring lanes for neighbouring columns.
  template <class F>
  __device__ void each(int first, int n, const F& f) const {
    for (int row = first + warp; row < n; row += warps) {
      for (int column = first + lane; column < n; column += k_lanes)
        f(row, column);
    }
  }
};

/// A matrix of up to N rows in shared memory; rows begin in banks of their own.
template <class T, int N>
struct Held {
  T numbers[N * (N + 1)];

  __device__ T& operator()(int row, int column) { return numbers[row * (N + 1) + column]; }
  __device__ void load(const T* from, int n) {
    Here().each(0, n, [&](int row, int column) { (*this)(row, column) = from[row * n + column]; });
    __syncthreads();
  }
  /// The next matrix may come when it is stored.
  __device__ void store(T* to, int n) {
    Here().each(0, n, [&](int row, int column) { to[row * n + column] = (*this)(row, column); });
    __syncthreads();
  }
};

/// L L^T in the lower triangle, as it lies row by row; the place of the first pivot that is not positive, from 1, or 0.
template <class T, int N>
__device__ int factor_positive(Held<T, N>& a, int n) {
  const Here here;
  for (int k = 0; k < n; ++k) {
    const T pivot = a(k, k);
    if (!(pivot > T(0)))  // nan too
      return k + 1;
    const T root = std::sqrt(pivot);
    __syncthreads();
    for (int i = k + static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x))
      a(i, k) = i == k ? root : a(i, k) / root;
    __syncthreads();
    here.each(k + 1, n, [&](int i, int j) {
      if (j <= i)
        a(i, j) -= a(i, k) * a(j, k);
    });
    __syncthreads();
  }
  return 0;
}

template <class T, int N>
__global__ void __launch_bounds__(2 * N) potrf_kernel(T* matrices, int n, std::int64_t count, int* info) {
  __shared__ Held<T, N> a;
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    T* const matrix = matrices + i * n * n;
    a.load(matrix, n);
    const int failed = factor_positive(a, n);
    __syncthreads();
    a.store(matrix, n);
    if (threadIdx.x == 0)
      info[i] = failed;
  }
}

/// The column from k on where row k, as it lies, is largest; of equal ones the first. For one warp.
template <class T, int N>
__device__ int largest(Held<T, N>& a, int k, int n) {
  const int lane = Here().lane;
  T most = T(-1);
  int at = k;
  for (int j = k + lane; j < n; j += k_lanes) {
    const T size = std::abs(a(k, j));
    if (size > most)
      most = size, at = j;
  }
  for (int apart = k_lanes / 2; apart > 0; apart /= 2) {
    const T other = __shfl_xor_sync(k_all_lanes, most, apart);
    const int other_at = __shfl_xor_sync(k_all_lanes, at, apart);
    if (other > most || (other == most && other_at < at))
      most = other, at = other_at;
  }
  return at;
}

// The library's columns lie as rows: row k here is its column k.
template <class T, int N>
__device__ int factor(Held<T, N>& a, int n, std::int64_t* pivots, int& chosen) {
  const Here here;
  const int first = static_cast<int>(threadIdx.x), step = static_cast<int>(blockDim.x);
  int failed = 0;
  for (int k = 0; k < n; ++k) {
    if (here.warp == 0) {
      const int at = largest(a, k, n);
      if (here.lane == 0) {
        chosen = at;
        pivots[k] = at + 1;
      }
    }
    __syncthreads();
    const int at = chosen;
    for (int i = first; i < n && at != k; i += step) {
      const T kept = a(i, k);
      a(i, k) = a(i, at);
      a(i, at) = kept;
    }
    __syncthreads();
    const T pivot = a(k, k);
    if (pivot == T(0) && failed == 0)
      failed = k + 1;
    for (int j = k + 1 + first; j < n && pivot != T(0); j += step)
      a(k, j) /= pivot;
    __syncthreads();
    here.each(k + 1, n, [&](int i, int j) { a(i, j) -= a(k, j) * a(i, k); });
    __syncthreads();
  }
  return failed;
}

template <class T, int N>
__global__ void __launch_bounds__(2 * N)
    getrf_kernel(T* matrices, int n, std::int64_t count, std::int64_t* pivots, int* info) {
  __shared__ Held<T, N> a;
  __shared__ int chosen;
  for (std::int64_t i = blockIdx.x; i < count; i += gridDim.x) {
    T* const matrix = matrices + i * n * n;
    a.load(matrix, n);
    const int failed = factor(a, n, pivots + i * n, chosen);
    a.store(matrix, n);
    if (threadIdx.x == 0)
      info[i] = failed;
  }
}

/// One triangle of a matrix, in columns, and which way its unknowns are found.
struct Triangle {
  bool forward, turned, unit;
};

/// Solves for one vector, whose entries lie `apart`.
template <class T>
__device__ void eliminate(const T* a, int n, const Triangle& how, T* x, int apart) {
  for (int done = 0; done < n; ++done) {
    const int j = how.forward ? done : n - 1 - done;
    T found = x[j * apart];
    if (!how.unit)
      x[j * apart] = found = found / a[j + j * n];
    for (int next = done + 1; next < n; ++next) {
      const int i = how.forward ? next : n - 1 - next;
      x[i * apart] -= found * (how.turned ? a[j + i * n] : a[i + j * n]);
    }
  }
}

/// What is solved for: `vectors` of n entries for each matrix; `pivots` null for triangular ones, where `first` is all.
template <class T>
struct Systems {
  const T* matrices;
  T* right;
  const std::int64_t* pivots;
  std::int64_t count, vectors;
  std::int64_t between, apart;  // of vectors, of entries of one
  int n;
  bool transposed;
  Triangle first, second;
};

template <class T>
__device__ void exchange_rows(const std::int64_t* pivots, int n, bool backward, T* x, int apart) {
  for (int done = 0; done < n; ++done) {
    const int k = backward ? n - 1 - done : done, other = static_cast<int>(pivots[k]) - 1;
    const T kept = x[k * apart];
    x[k * apart] = x[other * apart];
    x[other * apart] = kept;
  }
}

/// A thread a vector, a block a matrix and W of its vectors at a time.
template <class T, int N, int W>
__global__ void __launch_bounds__(W) solve_kernel(Systems<T> of) {
  __shared__ T a[N * N], x[N * W];
  T* const mine = x + threadIdx.x;
  for (std::int64_t matrix = blockIdx.x; matrix < of.count; matrix += gridDim.x) {
    for (int i = static_cast<int>(threadIdx.x); i < of.n * of.n; i += W)
      a[i] = of.matrices[matrix * of.n * of.n + i];
    __syncthreads();
    const std::int64_t* const pivots = of.pivots == nullptr ? nullptr : of.pivots + matrix * of.n;
    for (std::int64_t v = blockIdx.y * W + threadIdx.x; v < of.vectors; v += std::int64_t{gridDim.y} * W) {
      T* const vector = of.right + matrix * of.n * of.vectors + v * of.between;
      for (int k = 0; k < of.n; ++k)
        mine[k * W] = vector[k * of.apart];
      if (pivots != nullptr && !of.transposed)
        exchange_rows(pivots, of.n, false, mine, W);
      eliminate(a, of.n, of.first, mine, W);
      if (pivots != nullptr)
        eliminate(a, of.n, of.second, mine, W);
      if (pivots != nullptr && of.transposed)
        exchange_rows(pivots, of.n, true, mine, W);
      for (int k = 0; k < of.n; ++k)
        vector[k * of.apart] = mine[k * W];
    }
    __syncthreads();
  }
}

unsigned grid_of(std::int64_t matrices) {
  return static_cast<unsigned>(std::min<std::int64_t>(matrices, 1 << 20));
}

/// f with the type and the next size that there is: f.template operator()<T, N>().
template <class F>
void by_type_and_size(DType dtype, std::int64_t n, const F& f) {
  const bool wide = dtype == DType::float64;
  if (n <= k_small_matrix / 2)
    wide ? f.template operator()<double, k_small_matrix / 2>() : f.template operator()<float, k_small_matrix / 2>();
  else
    wide ? f.template operator()<double, k_small_matrix>() : f.template operator()<float, k_small_matrix>();
}

template <class T, int N>
void launch_solve(const GpuStep& step, const Systems<T>& of) {
  constexpr int k_vectors = N < k_small_matrix ? 2 * N : N / 2;  // with the matrix at most 48 KiB
  // Of few matrices the vectors go to blocks of their own.
  const std::int64_t slices = (of.vectors + k_vectors - 1) / k_vectors;
  const dim3 grid(grid_of(of.count), static_cast<unsigned>(std::min<std::int64_t>(slices, 1024)));
  solve_kernel<T, N, k_vectors><<<grid, k_vectors, 0, stream_of(step.queue)>>>(of);
}

}  // namespace

void small_potrf_gpu(const GpuStep& step, std::int64_t n, void* a, int* info) {
  by_type_and_size(step.dtype, n, [&]<class T, int N>() {
    potrf_kernel<T, N><<<grid_of(step.count), 2 * N, 0, stream_of(step.queue)>>>(
        static_cast<T*>(a), static_cast<int>(n), step.count, info);
  });
  check_launch("potrf");
}

void small_getrf_gpu(const GpuStep& step, std::int64_t n, void* a, std::int64_t* pivots, int* info) {
  by_type_and_size(step.dtype, n, [&]<class T, int N>() {
    getrf_kernel<T, N><<<grid_of(step.count), 2 * N, 0, stream_of(step.queue)>>>(
        static_cast<T*>(a), static_cast<int>(n), step.count, pivots, info);
  });
  check_launch("getrf");
}

void small_trsm_gpu(
    const GpuStep& step,
    bool upper,
    bool transposed,
    bool unit_diagonal,
    std::int64_t m,
    std::int64_t n,
    const void* a,
    void* b) {
  // Rows of b, which lie one beside the other, are the vectors: x A = b.
  const Triangle how{upper != transposed, !transposed, unit_diagonal};
  by_type_and_size(step.dtype, n, [&]<class T, int N>() {
    launch_solve<T, N>(
        step,
        {static_cast<const T*>(a),
         static_cast<T*>(b),
         nullptr,
         step.count,
         m,
         1,
         m,
         static_cast<int>(n),
         transposed,
         how,
         how});
  });
  check_launch("trsm");
}

void small_getrs_gpu(
    const GpuStep& step,
    bool transposed,
    std::int64_t n,
    std::int64_t columns,
    const void* a,
    const std::int64_t* pivots,
    void* b) {
  const Triangle lower{!transposed, transposed, true}, upper{transposed, transposed, false};
  by_type_and_size(step.dtype, n, [&]<class T, int N>() {
    launch_solve<T, N>(
        step,
        {static_cast<const T*>(a),
         static_cast<T*>(b),
         pivots,
         step.count,
         columns,
         n,
         1,
         static_cast<int>(n),
         transposed,
         transposed ? upper : lower,
         transposed ? lower : upper});
  });
  check_launch("getrs");
}

}  // namespace sluice::detail
