#pragma once

// The device's side of early_start.cuh, for kernels that NVRTC compiles too.
namespace sluice::detail {

/// To be called first by all threads of a kernel, before anything of the GPU's memory is read or written: what comes
/// after the kernel may take its places from here on, and the kernel waits for all that it comes after. Launched in
/// another way it costs nothing.
__device__ inline void start_early() {
#if defined(__CUDACC_RTC__) && defined(__CUDA_ARCH__)  // NVRTC has no names for these
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
#elif !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

}  // namespace sluice::detail
