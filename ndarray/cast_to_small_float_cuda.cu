#include <sluice/ndarray/detail/cast_kernels.cuh>

namespace sluice::detail {

GpuCast gpu_cast_to_small_float(DType to, DType from) noexcept {
  return to == DType::float16 ? launch_cast_from<Half>(from) : launch_cast_from<BFloat16>(from);
}

}  // namespace sluice::detail
