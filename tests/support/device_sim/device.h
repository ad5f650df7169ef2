#pragma once

// CUDA's device language for a compiler of the host, put before what translate.py wrote: kernels run on the simulated
// GPU (cuda_sim), block by block, the threads of a block in an order drawn at random between one barrier and the next.
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>

#include <cuda_runtime.h>

namespace device_sim {

struct Place {
  unsigned x = 0, y = 0, z = 0;
};

/// What the running thread of a kernel knows of itself.
struct Here {
  Place thread, block, block_extent, grid_extent;
};
Here& here() noexcept;

struct Config {
  Config(dim3 blocks, dim3 threads, std::size_t = 0, cudaStream_t on = nullptr) noexcept
      : grid(blocks), block(threads), stream(on) {}
  dim3 grid, block;
  cudaStream_t stream;
};

/// Enqueues `thread` for every thread of the grid.
void enqueue(const Config& config, std::function<void()> thread);

template <class Kernel, class... Values>
void launch(const Config& config, Kernel kernel, const Values&... values) {
  enqueue(config, [kernel, kept = std::tuple<Values...>(values...)] { std::apply(kernel, kept); });
}

/// Called by every thread of a kernel, or by none.
void await_earlier() noexcept;

/// All threads of the block that have not returned come here before one goes on.
void block_barrier();

/// Gives `value` (at most 16 bytes) to the warp and takes that of lane `from`; its own where there is none. All lanes
/// of `mask` come here before one goes on.
void exchange(unsigned mask, void* value, std::size_t bytes, unsigned from);
unsigned lane() noexcept;

template <class T>
T exchanged(unsigned mask, T value, unsigned from) {
  static_assert(sizeof(T) <= 16 && std::is_trivially_copyable_v<T>);
  exchange(mask, &value, sizeof(T), from);
  return value;
}

}  // namespace device_sim

#undef __shared__
#define __shared__ static thread_local
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#define threadIdx (::device_sim::here().thread)
#define blockIdx (::device_sim::here().block)
#define blockDim (::device_sim::here().block_extent)
#define gridDim (::device_sim::here().grid_extent)

inline void cudaTriggerProgrammaticLaunchCompletion() {}
inline void cudaGridDependencySynchronize() {
  ::device_sim::await_earlier();
}
inline void __syncthreads() {
  ::device_sim::block_barrier();
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes) {
  return ::device_sim::exchanged(mask, value, ::device_sim::lane() ^ static_cast<unsigned>(lanes));
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned distance) {
  return ::device_sim::exchanged(mask, value, ::device_sim::lane() + distance);
}
template <class T>
T __shfl_sync(unsigned mask, T value, int lane) {
  return ::device_sim::exchanged(mask, value, static_cast<unsigned>(lane));
}
/// Lanes below the distance keep their own.
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned distance) {
  const unsigned lane = ::device_sim::lane();
  return ::device_sim::exchanged(mask, value, lane < distance ? lane : lane - distance);
}
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  ::device_sim::exchanged(mask, 0, ::device_sim::lane());
}
inline float __uint_as_float(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline std::uint32_t __float_as_uint(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
inline std::uint32_t __umulhi(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::uint32_t>(std::uint64_t{a} * b >> 32);
}
inline int __popc(unsigned bits) {
  return __builtin_popcount(bits);
}
inline void __threadfence_system() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
inline int atomicCAS(int* address, int expected, int desired) {
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return expected;
}
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> more) {
  return __atomic_fetch_add(address, more, __ATOMIC_SEQ_CST);
}
template <class T>
T atomicMax(T* address, T value) {
  T before = __atomic_load_n(address, __ATOMIC_SEQ_CST);
  while (before < value &&
         !__atomic_compare_exchange_n(address, &before, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
  }
  return before;
}
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(b) < static_cast<C>(a) ? static_cast<C>(b) : static_cast<C>(a);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using C = std::common_type_t<A, B>;
  return static_cast<C>(a) < static_cast<C>(b) ? static_cast<C>(b) : static_cast<C>(a);
}
