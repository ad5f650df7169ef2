#include <mutex>
#include <string>

#include <cuda_runtime.h>

#include <sluice/engine/error.h>

#include "tests/engine/gpu_work.h"

namespace sluice::test {

namespace {

void check(cudaError_t status, const char* call) {
  if (status == cudaSuccess)
    return;
  cudaGetLastError();
  throw CudaError(message("in a test: ", call, ": ", cudaGetErrorString(status)), static_cast<int>(status));
}

__device__ void dawdle(unsigned microseconds) {
  if (microseconds == 0)
    return;
  unsigned long long begin, now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do {
    __nanosleep(500);
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - begin < 1000ull * microseconds);
}

__global__ void step_kernel(Step step, std::uint64_t task, Cell* cells, Seen* seen, unsigned delay_us) {
  dawdle(delay_us);
  run_step(step, task, cells, *seen);
}

__global__ void store_kernel(std::uint64_t* word, std::uint64_t value, unsigned delay_us) {
  dawdle(delay_us);
  *word = value;
}

__global__ void append_kernel(std::uint64_t* word, std::uint64_t value, unsigned delay_us) {
  dawdle(delay_us);
  *word = 3 * *word + value;
}

__global__ void combine_kernel(std::uint64_t* to, const std::uint64_t* from, unsigned delay_us) {
  dawdle(delay_us);
  *to = 3 * *to + *from;
}

// The clusters that it really runs in: 100 * blocks along x + blocks along y; 0 where a GPU has none.
__global__ void cluster_kernel(std::uint64_t* word) {
#if __CUDA_ARCH__ >= 900
  unsigned x, y;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(x));
  asm volatile("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(y));
  if (blockIdx.x == 0 && blockIdx.y == 0)
    *word = 3 * *word + 100 * x + y;
#else
  *word = 0;
#endif
}

__global__ void bad_index_kernel(ErrorWord* word, long long value, long long bound) {
  word->value = value;
  word->bound = bound;
  __threadfence_system();
  *static_cast<volatile int*>(&word->code) = 1;
}

cudaStream_t native(void* stream) {
  return static_cast<cudaStream_t>(stream);
}

}  // namespace

void prepare_gpus() {
  static std::once_flag once;
  std::call_once(once, [] {
    int before = 0, count = 0;
    check(cudaGetDevice(&before), "cudaGetDevice");
    check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
    for (int device = 0; device < count; ++device) {
      check(cudaSetDevice(device), "cudaSetDevice");
      cudaFuncAttributes loaded;
      check(cudaFuncGetAttributes(&loaded, step_kernel), "cudaFuncGetAttributes");
      check(cudaFuncGetAttributes(&loaded, store_kernel), "cudaFuncGetAttributes");
      check(cudaFuncGetAttributes(&loaded, append_kernel), "cudaFuncGetAttributes");
      check(cudaFuncGetAttributes(&loaded, combine_kernel), "cudaFuncGetAttributes");
      check(cudaFuncGetAttributes(&loaded, cluster_kernel), "cudaFuncGetAttributes");
      check(cudaFuncGetAttributes(&loaded, bad_index_kernel), "cudaFuncGetAttributes");
    }
    check(cudaSetDevice(before), "cudaSetDevice");
  });
}

void enqueue_step(void* stream, const Step& step, std::uint64_t task, Cell* cells, Seen* seen, unsigned delay_us) {
  step_kernel<<<1, 1, 0, native(stream)>>>(step, task, cells, seen, delay_us);
}

void enqueue_store(void* stream, std::uint64_t* word, std::uint64_t value, unsigned delay_us) {
  store_kernel<<<1, 1, 0, native(stream)>>>(word, value, delay_us);
}

void enqueue_append(void* stream, std::uint64_t* word, std::uint64_t value, unsigned delay_us) {
  append_kernel<<<1, 1, 0, native(stream)>>>(word, value, delay_us);
}

void enqueue_combine(void* stream, std::uint64_t* to, const std::uint64_t* from, unsigned delay_us) {
  combine_kernel<<<1, 1, 0, native(stream)>>>(to, from, delay_us);
}

bool has_clusters(int device) {
  int major = 0;
  check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device), "cudaDeviceGetAttribute");
  return major >= 9;
}

void enqueue_cluster(void* stream, std::uint64_t* word, unsigned x, unsigned y) {
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {x, y, 1};
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(4, 4);
  launch.blockDim = dim3(32);
  launch.stream = native(stream);
  launch.attrs = &cluster;
  launch.numAttrs = 1;
  check(cudaLaunchKernelEx(&launch, cluster_kernel, word), "cudaLaunchKernelEx");
}

void enqueue_copy(void* stream, void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, native(stream)), "cudaMemcpyAsync");
}

void enqueue_bad_index(void* stream, ErrorWord* word, long long value, long long bound) {
  bad_index_kernel<<<1, 1, 0, native(stream)>>>(word, value, bound);
}

void enqueue_refused_launch(void* stream) {
  store_kernel<<<1, 4096, 0, native(stream)>>>(nullptr, 0, 0);
}

void append_on_legacy_stream(std::uint64_t* word, std::uint64_t value, unsigned delay_us) {
  append_kernel<<<1, 1>>>(word, value, delay_us);
}

ForeignStream::ForeignStream() {
  cudaStream_t made = nullptr;
  check(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  stream_ = made;
}

ForeignStream::~ForeignStream() {
  cudaStreamDestroy(native(stream_));
}

void ForeignStream::begin_capture() {
  check(cudaStreamBeginCapture(native(stream_), cudaStreamCaptureModeRelaxed), "cudaStreamBeginCapture");
}

void ForeignStream::launch_captured() {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  check(cudaStreamEndCapture(native(stream_), &graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
  check(cudaGraphLaunch(executable, native(stream_)), "cudaGraphLaunch");
  check(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
}

void* gpu_allocate(std::size_t bytes, int device) {
  int before = 0;
  void* memory = nullptr;
  check(cudaGetDevice(&before), "cudaGetDevice");
  check(cudaSetDevice(device), "cudaSetDevice");
  const cudaError_t status = cudaMalloc(&memory, bytes);
  cudaSetDevice(before);
  check(status, "cudaMalloc");
  return memory;
}

void* pinned_allocate(std::size_t bytes) {
  void* memory = nullptr;
  check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  return memory;
}

void gpu_free(void* memory) noexcept {
  cudaFree(memory);
}

void pinned_free(void* memory) noexcept {
  cudaFreeHost(memory);
}

void copy_and_wait(void* to, const void* from, std::size_t bytes) {
  check(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  // Out of pageable memory it returns when the bytes are staged; streams of an engine would begin before they arrive.
  check(cudaStreamSynchronize(cudaStreamLegacy), "cudaStreamSynchronize");
}

}  // namespace sluice::test
