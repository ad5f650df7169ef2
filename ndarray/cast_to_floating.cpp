#include <sluice/ndarray/detail/cast_loops.h>

namespace sluice::detail {

CpuCast cpu_cast_to_floating(DType to, DType from) noexcept {
  switch (to) {
    case DType::float16:
      return cast_from<Half>(from);
    case DType::bfloat16:
      return cast_from<BFloat16>(from);
    case DType::float32:
      return cast_from<float>(from);
    default:
      return cast_from<double>(from);
  }
}

}  // namespace sluice::detail
