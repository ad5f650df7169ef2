#include <algorithm>

#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/library/launch.cuh>
#include <sluice/operator/linalg/determinant.h>
#include <sluice/operator/linalg/steps_gpu.h>

namespace sluice::detail {

namespace {

template <class F>
void by_type(DType dtype, F&& f) {
  dtype == DType::float64 ? f.template operator()<double>() : f.template operator()<float>();
}

template <class T>
__global__ void __launch_bounds__(k_block) place_kernel(Placement p, std::int64_t count) {
  const std::int64_t each = p.rows * p.columns;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count * each; i += step)
    static_cast<T*>(p.to)[i] = p.at<T>(i / each, i % each / p.columns, i % p.columns);
}

// A block for a matrix, and the next one.
template <class T>
__global__ void __launch_bounds__(k_block)
    find_bad_kernel(const T* matrices, std::int64_t each, std::int64_t count, int* bad) {
  __shared__ int found;
  for (std::int64_t matrix = blockIdx.x; matrix < count; matrix += gridDim.x) {
    if (threadIdx.x == 0)
      found = 0;
    __syncthreads();
    for (std::int64_t i = threadIdx.x; i < each; i += k_block) {
      const T x = matrices[matrix * each + i];
      if (!(x - x == T(0)))
        atomicAdd(&found, 1);
    }
    __syncthreads();
    if (threadIdx.x == 0)
      bad[matrix] = found != 0;
    __syncthreads();
  }
}

template <class T>
__global__ void __launch_bounds__(k_block)
    find_zero_kernel(const T* matrices, std::int64_t n, std::int64_t count, int* found) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    found[i] = first_zero(matrices + i * n * n, n);
}

template <class T>
__global__ void __launch_bounds__(k_block) determinant_kernel(Determinants wanted, std::int64_t count) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    write_determinant<T>(wanted, i);
}

// One block: which matrix is reported does not depend on who is first.
__global__ void __launch_bounds__(k_block)
    refuse_kernel(const int* info, std::int64_t count, int code, ErrorWord* word) {
  __shared__ std::int64_t firsts[k_block];
  std::int64_t first = count;
  for (std::int64_t i = threadIdx.x; i < count && first == count; i += k_block)
    first = info[i] != 0 ? i : count;
  firsts[threadIdx.x] = first;
  __syncthreads();
  if (threadIdx.x != 0)
    return;
  for (int i = 1; i < k_block; ++i)
    first = firsts[i] < first ? firsts[i] : first;
  if (first == count || atomicCAS(&word->reserved, 0, 1) != 0)
    return;
  word->value = first;
  word->bound = info[first];
  __threadfence_system();
  *static_cast<volatile int*>(&word->code) = code;
}

}  // namespace

void place_gpu(const GpuStep& step, const Placement& placement) {
  const std::int64_t size = step.count * placement.rows * placement.columns;
  by_type(step.dtype, [&]<class T>() {
    place_kernel<T><<<blocks_for(size), k_block, 0, stream_of(step.queue)>>>(placement, step.count);
  });
  check_launch("place");
}

void find_bad_gpu(const GpuStep& step, const void* matrices, std::int64_t each, int* bad) {
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(step.count, 65536));
  by_type(step.dtype, [&]<class T>() {
    find_bad_kernel<<<blocks, k_block, 0, stream_of(step.queue)>>>(
        static_cast<const T*>(matrices), each, step.count, bad);
  });
  check_launch("find_bad");
}

void find_zero_gpu(const GpuStep& step, const void* matrices, std::int64_t n, int* found) {
  by_type(step.dtype, [&]<class T>() {
    find_zero_kernel<<<blocks_for(step.count), k_block, 0, stream_of(step.queue)>>>(
        static_cast<const T*>(matrices), n, step.count, found);
  });
  check_launch("find_zero");
}

void determinants_gpu(const GpuStep& step, const Determinants& wanted) {
  by_type(step.dtype, [&]<class T>() {
    determinant_kernel<T><<<blocks_for(step.count), k_block, 0, stream_of(step.queue)>>>(wanted, step.count);
  });
  check_launch("determinant");
}

void refuse_gpu(const GpuStep& step, const int* info, FaultCode code) {
  ErrorWord* const word = step.queue.error_word();
  refuse_kernel<<<1, k_block, 0, stream_of(step.queue)>>>(info, step.count, static_cast<int>(code), word);
  check_launch("refuse");
}

}  // namespace sluice::detail
