#include <sluice/ndarray/detail/cast_kernels.cuh>

namespace sluice::detail {

GpuCast gpu_cast_to_float(DType to, DType from) noexcept {
  return to == DType::float32 ? launch_cast_from<float>(from) : launch_cast_from<double>(from);
}

}  // namespace sluice::detail
