// Casts from and to stored types: by way of int64, or of a double where uint64 meets a floating type, in blocks that
// stay in the nearest cache. So each stored type needs two conversions, not one a type.
#include <sluice/ndarray/detail/cast_loops.h>
#include <sluice/ndarray/detail/stored_numbers.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_block = 512;

/// So many elements along one axis.
CopyPlan line(std::int64_t count, std::int64_t to_step, std::int64_t from_step) {
  CopyPlan plan;
  plan.size = plan.extents[0] = count;
  plan.strides[0][0] = to_step;
  plan.strides[1][0] = from_step;
  return plan;
}

void doubles_with_rest(const CopyPlan& plan, void* to, const void* from) {
  auto* const doubles = static_cast<double*>(to);
  const auto* const numbers = static_cast<const std::uint64_t*>(from);
  for_each_run(plan, k_copy_grain, [=](const StridedRun<2>& run) {
    for (std::int64_t i = 0; i < run.count; ++i)
      doubles[run.offset[0] + i * run.step[0]] = double_with_rest(numbers[run.offset[1] + i * run.step[1]]);
  });
}

/// Of stored types and int64, and of uint64 and double. Null for others.
CpuCast one_step(DType to, DType from) noexcept {
  const auto stored = [](DType type, auto&& f) -> CpuCast {
    switch (type) {
      case DType::int16:
        return f.template operator()<std::int16_t>();
      case DType::uint16:
        return f.template operator()<std::uint16_t>();
      case DType::uint32:
        return f.template operator()<std::uint32_t>();
      case DType::uint64:
        return f.template operator()<std::uint64_t>();
      default:
        return nullptr;
    }
  };
  if (to == DType::int64)
    return stored(from, []<class T>() -> CpuCast { return &cast_plan<std::int64_t, T>; });
  if (from == DType::int64)
    return stored(to, []<class T>() -> CpuCast { return &cast_plan<T, std::int64_t>; });
  if (to == DType::float64 && from == DType::uint64)
    return &cast_plan<double, std::uint64_t>;
  if (to == DType::uint64 && from == DType::float64)
    return &cast_plan<std::uint64_t, double>;
  return nullptr;
}

CpuCast step(DType to, DType from) noexcept {
  if (!is_computed(to) || !is_computed(from))
    return one_step(to, from);
  return is_floating(to) ? cpu_cast_to_floating(to, from) : cpu_cast_to_integer(to, from);
}

}  // namespace

void cast_stored_on_cpu(const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type) {
  if (const CpuCast cast = one_step(to_type, from_type))
    return cast(plan, to, from);
  const bool is_real = meets_floating(to_type, from_type);
  const DType between = is_real ? DType::float64 : DType::int64;
  const CpuCast in = is_real && from_type == DType::uint64 ? &doubles_with_rest : step(between, from_type);
  const CpuCast out = step(to_type, between);
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  const auto to_bytes = static_cast<std::int64_t>(size_of(to_type));
  const auto from_bytes = static_cast<std::int64_t>(size_of(from_type));
  for_each_run(plan, k_copy_grain, [=](const StridedRun<2>& run) {
    std::int64_t block[k_block];
    static_assert(sizeof(double) == sizeof block[0]);
    for (std::int64_t i = 0; i < run.count; i += k_block) {
      const std::int64_t n = std::min(k_block, run.count - i);
      in(line(n, 1, run.step[1]), block, source + (run.offset[1] + i * run.step[1]) * from_bytes);
      out(line(n, run.step[0], 1), target + (run.offset[0] + i * run.step[0]) * to_bytes, block);
    }
  });
}

}  // namespace sluice::detail
