#include <sluice/ndarray/detail/cast_kernels.cuh>

namespace sluice::detail {

GpuCast gpu_cast_to_integer(DType to, DType from) noexcept {
  return to == DType::int32 ? launch_cast_from<std::int32_t>(from) : launch_cast_from<std::int64_t>(from);
}

}  // namespace sluice::detail
