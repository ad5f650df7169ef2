#pragma once

#include <cuda_runtime.h>

#include <sluice/operator/fault.cuh>
#include <sluice/operator/gather/kernels.h>

namespace sluice::detail {

/// Indices of any integer type as entries, and where to report one that is none.
struct ResolvedIndices {
  Placing place;
  ErrorWord* errors;

  ResolvedIndices(const KernelCall& call, const Placing& placing)
      : place(placing), errors(may_name_none(place.mode) ? call.queue.error_word() : nullptr) {}
  ResolvedIndices(const KernelCall& call, const TensorView& indices, const GatherAxis& along)
      : ResolvedIndices(call, {indices.data, indices.dtype, along.mode, 1, indices.size, {along.extent}}) {}

  /// The entry that index i names, or -1; `reports` is true for one thread of those that ask.
  __device__ std::int64_t at(std::int64_t i, bool reports) const {
    const Placing::Named named = place.at(i);
    if (named.entry < 0 && reports)
      report_index(errors, named.index, place.extents[named.axis]);
    return named.entry;
  }
};

}  // namespace sluice::detail
