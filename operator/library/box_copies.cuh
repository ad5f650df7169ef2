#pragma once

// Copies of whole boxes by a unit of their own, and the barriers that tell when they are there, as PTX has them from
// sm_90 on. A ring of stages: who copies waits until a stage is read, who reads until it is full.
#include <cstdint>

#include <sluice/operator/library/tensor_map_cuda.h>
#include <sluice/operator/library/warpgroup.cuh>

#if SLUICE_WARPGROUPS
namespace sluice::detail {

__device__ inline unsigned shared_address(const void* at) {
  return static_cast<unsigned>(__cvta_generic_to_shared(at));
}

/// A phase of the barrier ends when `count` have arrived and all bytes that were announced are there.
__device__ inline void make_barrier(std::uint64_t* barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(count) : "memory");
}
/// Barriers that were made are to be seen by copies.
__device__ inline void show_barriers() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void arrive(std::uint64_t* barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}
__device__ inline void arrive_before(std::uint64_t* barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
               : "memory");
}
/// Until the phase of that parity has ended: the one before a barrier's first has parity 1.
__device__ inline void await_phase(std::uint64_t* barrier, unsigned parity) {
  unsigned ended = 0;
  while (ended == 0)
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
        "selp.u32 %0, 1, 0, ended;\n"
        "}"
        : "=r"(ended)
        : "r"(shared_address(barrier)), "r"(parity)
        : "memory");
}

/// Where the first pixel of a box stands for a kernel's first place.
struct BoxPlace {
  int channel, column, row, image;
};
/// Begins to copy the box of an ImageMap, `below` and `beside` from there.
__device__ inline void copy_pixels(
    void* to, const CUtensorMap& map, std::uint64_t* barrier, const BoxPlace& at, int below, int beside) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%0], "
      "[%1, {%3, %4, %5, %6}], [%2], {%7, %8};" ::"r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)),
      "r"(shared_address(barrier)),
      "r"(at.channel),
      "r"(at.column),
      "r"(at.row),
      "r"(at.image),
      "h"(static_cast<std::uint16_t>(beside)),
      "h"(static_cast<std::uint16_t>(below))
      : "memory");
}
/// Begins to copy the box of a LineMap from line `inner` of `outer` on.
__device__ inline void copy_lines(
    void* to, const CUtensorMap& map, std::uint64_t* barrier, int channel, int inner, int outer) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::
          "r"(shared_address(to)),
      "l"(reinterpret_cast<std::uint64_t>(&map)),
      "r"(shared_address(barrier)),
      "r"(channel),
      "r"(inner),
      "r"(outer)
      : "memory");
}

/// A place in a ring of stages, and how often it went around.
struct RingPlace {
  int stage = 0;
  unsigned turn = 0;  // its parity

  __device__ void go_on(int stages) {
    if (++stage == stages) {
      stage = 0;
      turn ^= 1;
    }
  }
};

}  // namespace sluice::detail
#endif
