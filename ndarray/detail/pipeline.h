#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include <sluice/engine/engine.h>
#include <sluice/ndarray/detail/array_object.h>

// Large transfers between a GPU and host memory that GPUs do not copy from or to (not pinned, strided, or of another
// type): in slices through pinned memory, so that a CPU task copies one slice while the next one is on the bus.
namespace sluice::detail {

/// From so many bytes on the bus a transfer is cut into slices: some four of them, each within these limits.
struct SliceSizes {
  std::size_t from = std::size_t{2} << 20;
  std::size_t smallest = std::size_t{1} << 20;
  std::size_t largest = std::size_t{4} << 20;
};
/// Slices of one transfer under way at a time: one on the bus, one being copied, two that wait for their turn.
inline constexpr int k_slices_in_flight = 4;

/// Cuts along the first axis, of the flat array where there are no gaps.
struct Slicing {
  Shape shape;  // of the host's end as it is cut
  Shape strides;
  std::int64_t rows = 0;  // of a slice; the last may have fewer
  int count = 0;
};
/// Nothing if the transfer is too small, or one row is too large for a slice.
std::optional<Slicing> slicing_of(
    const Shape& shape, const Shape& strides, DType dtype, DType wire, const SliceSizes& sizes = {});

/// A transfer of elements as `wire`. The host's end lies as `slicing` says, in elements of `host_type`; the far end is
/// contiguous, on `far_device`, of type `wire`.
struct SlicedCopy {
  bool outward = false;  // to the host
  DType wire = DType::float32;
  std::byte* host = nullptr;
  DType host_type = DType::float32;
  std::byte* far = nullptr;
  Device far_device;
  Slicing slicing;
  Denormals denormals = Denormals::keep;  // of the tasks that cast
};

/// Pushes the transfer as one task that holds `access`, where it is from and where it goes, to its end, without a
/// thread: in between, tasks of its own carry the slices. What fails in one of them fails the whole.
TaskHandle push_sliced(Engine& engine, const SlicedCopy& copy, AccessList access, SourceLocation site);

/// All elements of a GPU array to host memory that no Var stands for, cast, in row-major order; waits. False if the
/// array is too small to be cut. Throws what a wait for the array throws; then nothing writes to `to` any more.
bool read_sliced(const NDArray& array, void* to, DType dtype);

}  // namespace sluice::detail
