#include <sluice/ndarray/detail/cast_loops.h>

namespace sluice::detail {

CpuCast cpu_cast_to_integer(DType to, DType from) noexcept {
  switch (to) {
    case DType::bool_:
      return cast_from<bool>(from);
    case DType::uint8:
      return cast_from<std::uint8_t>(from);
    case DType::int8:
      return cast_from<std::int8_t>(from);
    case DType::int32:
      return cast_from<std::int32_t>(from);
    default:
      return cast_from<std::int64_t>(from);
  }
}

}  // namespace sluice::detail
