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
  __device__ std::int64_t at(std::int64_t i, bool reports) const { return told(place.at(i), reports); }
  /// The same of one axis, where the i-th index is `index`.
  __device__ std::int64_t named(std::int64_t i, std::int64_t index, bool reports) const {
    return told(place.named(i, index), reports);
  }
  /// The entries that indices first, first + step, .. before `count` name, or -1.
  template <int K>
  __device__ void find(std::int64_t first, std::int64_t step, std::int64_t count, std::int64_t (&entries)[K]) const {
    if (place.axes == 1)
      return find_on_axis(first, step, count, true, entries);
    for (int k = 0; k < K; ++k)
      entries[k] = first + k * step < count ? at(first + k * step, true) : -1;
  }
  /// The same of one axis, whose numbers are under way together.
  template <int K>
  __device__ void find_on_axis(
      std::int64_t first, std::int64_t step, std::int64_t count, bool reports, std::int64_t (&entries)[K]) const {
    std::int64_t numbers[K];
#pragma unroll
    for (int k = 0; k < K; ++k)
      numbers[k] = first + k * step < count ? load_index(place.data, place.dtype, first + k * step) : 0;
#pragma unroll
    for (int k = 0; k < K; ++k)
      entries[k] = first + k * step < count ? named(first + k * step, numbers[k], reports) : -1;
  }
  /// The place on the first axis that index i names, or -1, which each thread reports.
  __device__ std::int64_t place_of(std::int64_t i) const {
    const std::int64_t index = load_index(place.data, place.dtype, i);
    const std::int64_t found = resolve_index(index, place.extents[0], place.mode);
    return told({found, index}, true);
  }

 private:
  __device__ std::int64_t told(const Placing::Named& named, bool reports) const {
    if (named.entry < 0 && reports)
      report_index(errors, named.index, place.extents[named.axis]);
    return named.entry;
  }
};

}  // namespace sluice::detail
