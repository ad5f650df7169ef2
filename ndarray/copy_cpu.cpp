#include <algorithm>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/cast_loops.h>

namespace sluice::detail {

void cast_on_cpu(const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type) {
  if (to_type == from_type) {  // bits as they are, whatever they mean
    if (transpose_on_cpu(plan, to, from, size_of(to_type)) || interleave_on_cpu(plan, to, from, size_of(to_type)))
      return;
    switch (size_of(to_type)) {
      case 1:
        return cast_plan<std::uint8_t, std::uint8_t>(plan, to, from);
      case 2:
        return cast_plan<std::uint16_t, std::uint16_t>(plan, to, from);
      case 4:
        return cast_plan<std::uint32_t, std::uint32_t>(plan, to, from);
      default:
        return cast_plan<std::uint64_t, std::uint64_t>(plan, to, from);
    }
  }
  if (!is_computed(to_type) || !is_computed(from_type))
    return cast_stored_on_cpu(plan, to, to_type, from, from_type);
  const CpuCast cast =
      is_floating(to_type) ? cpu_cast_to_floating(to_type, from_type) : cpu_cast_to_integer(to_type, from_type);
  cast(plan, to, from);
}

void fill_on_cpu(const FillPlan& plan, void* to, DType type, Scalar value) {
  by_any_dtype(type, [&]<class T>() {
    T* const target = static_cast<T*>(to);
    const T element = value.kind() == Scalar::Kind::real ? convert<T>(value.as_double()) : convert<T>(value.as_int64());
    for_each_run(plan, k_copy_grain, [=](const StridedRun<1>& run) {
      T* const first = target + run.offset[0];
      if (run.step[0] == 1) {
        std::fill_n(first, run.count, element);
      } else {
        for (std::int64_t i = 0; i < run.count; ++i)
          first[i * run.step[0]] = element;
      }
    });
  });
}

}  // namespace sluice::detail
