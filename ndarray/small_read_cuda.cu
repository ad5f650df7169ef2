// A few bytes from GPU memory to the host, without a copy engine.
#include <cuda_runtime.h>

#include <sluice/engine/cuda/portable_memory.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/detail/small_read.h>
#include <sluice/ndarray/strided.cuh>

namespace sluice::detail {
namespace {

// More than that a copy engine brings sooner.
constexpr std::size_t k_most_fetched = 1 << 20, k_most_delivered = 1 << 16;

template <class Word>
__device__ void copy_words(std::byte* to, const std::byte* from, unsigned bytes) {
  const unsigned words = bytes / sizeof(Word), first = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned step = gridDim.x * blockDim.x;
  for (unsigned i = first; i < words; i += step)
    reinterpret_cast<Word*>(to)[i] = reinterpret_cast<const Word*>(from)[i];
  for (unsigned i = words * sizeof(Word) + first; i < bytes; i += step)
    to[i] = from[i];
}

__device__ void copy_any(std::byte* to, const std::byte* from, unsigned bytes) {
  const auto address = reinterpret_cast<std::uintptr_t>(from);  // `to` is aligned to 16
  if (address % 16 == 0) {
    copy_words<uint4>(to, from, bytes);
  } else if (address % 4 == 0) {
    copy_words<unsigned>(to, from, bytes);
  } else {
    copy_words<std::byte>(to, from, bytes);
  }
}

__global__ void fetch_kernel(std::byte* to, const std::byte* from, unsigned bytes) {
  copy_any(to, from, bytes);
}

// One block. The barrier puts every thread's bytes before thread 0's release, which covers the whole system.
__global__ void write_slot_kernel(
    std::byte* to, const std::byte* from, unsigned bytes, std::uint64_t* flag, std::uint64_t sequence) {
  copy_any(to, from, bytes);
  __syncthreads();
  if (flag != nullptr && threadIdx.x == 0) {
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

void fetch_mapped(void* stream, void* to, const void* mapped, std::size_t bytes) {
  if (bytes > k_most_fetched)
    return copy_bytes(stream, to, mapped, bytes);
  const auto blocks = static_cast<unsigned>((bytes / sizeof(uint4) + k_block) / k_block);
  fetch_kernel<<<blocks, k_block, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<std::byte*>(to), static_cast<const std::byte*>(mapped), static_cast<unsigned>(bytes));
  check_launch("fetch_mapped");
}

void deliver_mapped(void* stream, void* mapped, const void* from, std::size_t bytes, std::uint64_t* flag) {
  if (bytes > k_most_delivered) {
    copy_bytes(stream, mapped, from, bytes);
    bytes = 0;
  }
  if (bytes == 0 && flag == nullptr)
    return;
  const unsigned threads = bytes <= 512 ? 32 : k_block;
  write_slot_kernel<<<1, threads, 0, static_cast<cudaStream_t>(stream)>>>(
      static_cast<std::byte*>(mapped), static_cast<const std::byte*>(from), static_cast<unsigned>(bytes), flag, 1);
  check_launch("deliver_mapped");
}

void* allocate_mapped(std::size_t bytes) {
  void* memory = nullptr;
  cuda::cuda_check(cuda::allocate_portable(&memory, bytes), "cudaHostAlloc");
  return memory;
}

void free_mapped(void* memory) noexcept {
  cuda::free_portable(memory);
}

}  // namespace sluice::detail
