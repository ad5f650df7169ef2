#include <sluice/ndarray/detail/cast_kernels.cuh>

namespace sluice::detail {

GpuCast gpu_cast_to_bytes(DType to, DType from) noexcept {
  switch (to) {
    case DType::bool_:
      return launch_cast_from<bool>(from);
    case DType::uint8:
      return launch_cast_from<std::uint8_t>(from);
    default:
      return launch_cast_from<std::int8_t>(from);
  }
}

}  // namespace sluice::detail
