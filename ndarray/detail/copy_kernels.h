#pragma once

#include <cstddef>

#include <sluice/engine/task.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/iterate.h>
#include <sluice/ndarray/scalar.h>

// The work inside the tasks of copy, cast and fill. Pointers are the first elements; operand 0 of a plan is what is
// written, operand 1 what is read.
namespace sluice::detail {

using CopyPlan = StridedPlan<2>;
using FillPlan = StridedPlan<1>;

/// Whether a task that copies or casts flushes denormals: a change of type does, where one of the two is computed with
/// in float32, as on a GPU. Bits that are only moved stay as they are.
constexpr Denormals denormals_of_cast(DType to, DType from) noexcept {
  const auto narrow = [](DType type) { return is_floating(type) && type != DType::float64; };
  return to != from && (narrow(to) || narrow(from)) ? Denormals::flush : Denormals::keep;
}

/// to = from, converted. Runs on the calling thread and idle workers.
void cast_on_cpu(const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type);
/// Elements of `element` bytes. False, and nothing done, if the plan does not turn axes: see cast_on_cpu for the rest.
bool transpose_on_cpu(const CopyPlan& plan, void* to, const void* from, std::size_t element);
/// The same of plans that bring a few planes together, element by element, or part them.
bool interleave_on_cpu(const CopyPlan& plan, void* to, const void* from, std::size_t element);
void fill_on_cpu(const FillPlan& plan, void* to, DType type, Scalar value);

#ifdef SLUICE_CUDA
/// As above, enqueued on `stream` (a cudaStream_t) of the current GPU. Throw CudaError.
void cast_on_gpu(void* stream, const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type);
void fill_on_gpu(void* stream, const FillPlan& plan, void* to, DType type, Scalar value);
/// Bytes between a GPU and pinned memory, or inside a GPU.
void copy_bytes(void* stream, void* to, const void* from, std::size_t bytes);
void copy_bytes_between_gpus(void* stream, void* to, int to_gpu, const void* from, int from_gpu, std::size_t bytes);
#endif

// Parts of the above, by destination, so that they compile side by side.
using CpuCast = void (*)(const CopyPlan& plan, void* to, const void* from);
CpuCast cpu_cast_to_integer(DType to, DType from) noexcept;
CpuCast cpu_cast_to_floating(DType to, DType from) noexcept;
/// One of the types, or both, are stored types.
void cast_stored_on_cpu(const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type);
#ifdef SLUICE_CUDA
void cast_stored_on_gpu(void* stream, const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type);
using GpuCast = void (*)(void* stream, const CopyPlan& plan, void* to, const void* from);
GpuCast gpu_cast_to_bytes(DType to, DType from) noexcept;
GpuCast gpu_cast_to_integer(DType to, DType from) noexcept;
GpuCast gpu_cast_to_small_float(DType to, DType from) noexcept;
GpuCast gpu_cast_to_float(DType to, DType from) noexcept;
#endif

/// Calls f.operator()<T>() with the type that elements of computed type `type` are read as; a bool is read as its byte,
/// 0 or 1.
template <class F>
decltype(auto) by_source_type(DType type, F&& f) {
  switch (type) {
    case DType::int8:
      return f.template operator()<std::int8_t>();
    case DType::int32:
      return f.template operator()<std::int32_t>();
    case DType::int64:
      return f.template operator()<std::int64_t>();
    case DType::float16:
      return f.template operator()<Half>();
    case DType::bfloat16:
      return f.template operator()<BFloat16>();
    case DType::float32:
      return f.template operator()<float>();
    case DType::float64:
      return f.template operator()<double>();
    default:
      return f.template operator()<std::uint8_t>();
  }
}

}  // namespace sluice::detail
