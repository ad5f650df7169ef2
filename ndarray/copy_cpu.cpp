#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sluice/ndarray/convert.h>
#include <sluice/ndarray/detail/cast_loops.h>
#include <sluice/ndarray/element_size.h>

namespace sluice::detail {

namespace {

/// Rows of some bytes each, which follow each other at any distances.
struct ByteRows {
  std::byte* to;
  std::int64_t to_step;
  const std::byte* from;
  std::int64_t from_step;
  std::int64_t rows, bytes;

  // Of a number of bytes that the compiler knows, or any.
  template <std::int64_t known = 0>
  void copy() const {
    constexpr std::int64_t k_ahead = 8;  // rows lie too far apart for the processor to guess the next
    const auto width = static_cast<std::size_t>(known != 0 ? known : bytes);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::byte* const source = from + row * from_step;
      if (row + k_ahead < rows) {
        for (std::size_t line = 0; line < width; line += 64)
          __builtin_prefetch(source + k_ahead * from_step + line);
      }
      std::memcpy(to + row * to_step, source, width);
    }
  }
  void run() const {
    switch (bytes) {  // what heads of an attention have
      case 64:
        return copy<64>();
      case 128:
        return copy<128>();
      case 256:
        return copy<256>();
      default:
        return copy();
    }
  }
};

/// Short runs of neighbours on both sides, row by row: a step of the walk over all axes takes longer than such a run.
/// False, and nothing done, if they are none.
bool copy_short_rows(const CopyPlan& plan, void* to, const void* from, std::size_t element) {
  constexpr std::int64_t k_least = 32, k_most = 1024;  // bytes
  const int inner = plan.ndim - 1;
  const auto size = static_cast<std::int64_t>(element);
  const std::int64_t bytes = plan.extents[inner] * size;
  if (inner == 0 || plan.strides[0][inner] != 1 || plan.strides[1][inner] != 1 || bytes < k_least || bytes > k_most)
    return false;
  CopyPlan rows = plan;
  rows.ndim = inner;
  rows.size = plan.size / plan.extents[inner];
  for_each_run(rows, k_copy_grain / plan.extents[inner] + 1, [&](const StridedRun<2>& run) {
    ByteRows{
        static_cast<std::byte*>(to) + run.offset[0] * size,
        run.step[0] * size,
        static_cast<const std::byte*>(from) + run.offset[1] * size,
        run.step[1] * size,
        run.count,
        bytes}
        .run();
  });
  return true;
}

}  // namespace

void cast_on_cpu(const CopyPlan& plan, void* to, DType to_type, const void* from, DType from_type) {
  if (to_type == from_type) {  // bits as they are, whatever they mean
    const std::size_t size = size_of(to_type);
    if (transpose_on_cpu(plan, to, from, size) || interleave_on_cpu(plan, to, from, size) ||
        copy_short_rows(plan, to, from, size))
      return;
    return by_element_size(size, [&]<class T>() { cast_plan<T, T>(plan, to, from); });
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
