#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#include <cuda_runtime.h>

#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/ndarray/neighbours.cuh>
#include <sluice/ndarray/strided.cuh>

namespace sluice::detail {

/// Enqueues the copy of elements of that many bytes where `from` has its neighbours along another axis than `to`: a
/// transposed matrix, channels moved last. False, and nothing is enqueued, if that is not so or one of the two axes is
/// short.
bool copy_transposed(void* stream, const CopyPlan& plan, void* to, const void* from, std::size_t element);

/// The same where a few planes lie element beside element on one side, in vectors of 16 bytes: images whose channels
/// are brought together. False, and nothing is enqueued, where they do not.
bool interleave_on_gpu(void* stream, const CopyPlan& plan, void* to, const void* from, std::size_t element);

}  // namespace sluice::detail
