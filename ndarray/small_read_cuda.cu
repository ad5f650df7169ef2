// A few bytes from GPU memory to the host, without a copy engine.
#include <cuda_runtime.h>

#include <sluice/ndarray/detail/small_read.h>
#include <sluice/ndarray/strided.cuh>

namespace sluice::detail {
namespace {

template <class Word>
__device__ void copy_words(std::byte* to, const std::byte* from, unsigned bytes) {
  const unsigned words = bytes / sizeof(Word);
  for (unsigned i = threadIdx.x; i < words; i += blockDim.x)
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  for (unsigned i = words * sizeof(Word) + threadIdx.x; i < bytes; i += blockDim.x)
    to[i] = from[i];
}

// One block. The barrier puts every thread's bytes before thread 0's release, which covers the whole system.
__global__ void write_slot_kernel(
    std::byte* to, const std::byte* from, unsigned bytes, std::uint64_t* flag, std::uint64_t sequence) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);  // `to` is aligned to 16
  if (address % 16 == 0) {
    copy_words<uint4>(to, from, bytes);
  } else if (address % 4 == 0) {
    copy_words<unsigned>(to, from, bytes);
  } else {
    copy_words<std::byte>(to, from, bytes);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence_system();
    asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(__cvta_generic_to_global(flag)), "l"(sequence) : "memory");
  }
}

}  // namespace

void write_slot(void* stream, const ReadSlot& slot, const void* from, std::size_t bytes) {
  const unsigned threads = bytes <= 512 ? 32 : k_block;
  write_slot_kernel<<<1, threads, 0, static_cast<cudaStream_t>(stream)>>>(
      slot.data, static_cast<const std::byte*>(from), static_cast<unsigned>(bytes), slot.flag, slot.sequence);
  check_launch("write_slot");
}

void* allocate_mapped(std::size_t bytes) {
  void* memory = nullptr;
  cuda::cuda_check(cudaHostAlloc(&memory, bytes, cudaHostAllocMapped | cudaHostAllocPortable), "cudaHostAlloc");
  return memory;
}

void free_mapped(void* memory) noexcept {
  cudaFreeHost(memory);
}

}  // namespace sluice::detail
