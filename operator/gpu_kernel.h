#pragma once

// How an operator names its GPU kernel in a build that may have none: SLUICE_GPU_KERNEL(sum_gpu) is the function, or
// null without CUDA, which invoke() turns into a composition or an UnsupportedError.
#if SLUICE_CUDA
#define SLUICE_GPU_KERNEL(function) (function)
#else
#define SLUICE_GPU_KERNEL(function) nullptr
#endif
