#pragma once

#include <cuda_runtime.h>

#include <sluice/operator/fault.cuh>
#include <sluice/operator/gather/kernels.h>
#include <sluice/operator/gather/resolve.h>
#include <sluice/operator/index_value.h>

namespace sluice::detail {

/// Indices of any integer type as entries of an axis, and where to report one that is none.
struct ResolvedIndices {
  const void* data;
  DType dtype;
  std::int64_t extent;
  IndexMode mode;
  ErrorWord* errors;

  ResolvedIndices(const KernelCall& call, const TensorView& indices, const GatherAxis& along)
      : data(indices.data),
        dtype(indices.dtype),
        extent(along.extent),
        mode(along.mode),
        errors(mode == IndexMode::raise ? call.queue.error_word() : nullptr) {}

  /// The entry that index i names, or -1; `reports` is true for one thread of those that ask.
  __device__ std::int64_t at(std::int64_t i, bool reports) const {
    const std::int64_t index = load_index(data, dtype, i);
    const std::int64_t entry = resolve_index(index, extent, mode);
    if (entry < 0 && reports)
      report_index(errors, index, extent);
    return entry;
  }
};

}  // namespace sluice::detail
