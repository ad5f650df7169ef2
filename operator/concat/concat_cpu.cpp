#include <algorithm>
#include <cstring>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/copy_kernels.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/concat/kernels.h>

namespace sluice::detail {

namespace {

// Rows of so few bytes that a call to copy each would take longer than they do.
template <std::int64_t width>
void copy_short_rows(const std::byte* from, std::byte* to, std::int64_t pitch, std::int64_t rows) {
  for (std::int64_t row = 0; row < rows; ++row)
    std::memcpy(to + row * pitch, from + row * width, width);
}

void copy_whole_rows(const std::byte* from, std::byte* to, std::int64_t width, std::int64_t pitch, std::int64_t rows) {
  switch (width) {
    case 4:
      return copy_short_rows<4>(from, to, pitch, rows);
    case 8:
      return copy_short_rows<8>(from, to, pitch, rows);
    case 16:
      return copy_short_rows<16>(from, to, pitch, rows);
    default:
      for (std::int64_t row = 0; row < rows; ++row)
        std::memcpy(to + row * pitch, from + row * width, static_cast<std::size_t>(width));
  }
}

// Bytes [begin, end) of rows that lie `width` apart in the source and `pitch` apart in the target.
void copy_rows(
    const std::byte* from,
    std::byte* to,
    std::int64_t width,
    std::int64_t pitch,
    std::int64_t begin,
    std::int64_t end) {
  const auto part = [&](std::int64_t first, std::int64_t last) {
    const std::int64_t row = first / width;
    std::memcpy(to + row * pitch + first % width, from + first, static_cast<std::size_t>(last - first));
  };
  const std::int64_t first_row = (begin + width - 1) / width, end_row = end / width;
  if (first_row > end_row)  // within one row
    return part(begin, end);
  if (begin < first_row * width)
    part(begin, first_row * width);
  copy_whole_rows(from + first_row * width, to + first_row * pitch, width, pitch, end_row - first_row);
  if (end_row * width < end)
    part(end_row * width, end);
}

}  // namespace

void concat_cpu(const KernelCall& call) {
  if (places_by_element(call)) {
    return for_each_placed(call, [](const TensorView& x, const TensorView& to) {
      const CopyPlan plan = plan_strided<2>(x.shape, {&to.strides, &x.strides}, AxisOrder::free);
      cast_on_cpu(plan, to.data, to.dtype, x.data, x.dtype);
    });
  }
  const int axis = static_cast<int>(call.attributes.as<ConcatAttributes>().axis);
  const auto bytes = static_cast<std::int64_t>(size_of(call.outputs[0].dtype));
  const AxisLayout whole = axis_layout(call.outputs[0].shape, axis);
  auto* to = call.outputs[0].as<std::byte>();
  for (const TensorView& input : call.inputs) {
    const std::int64_t width = input.shape[axis] * whole.inner * bytes;
    if (input.size > 0) {
      parallel_for(whole.outer * width, 1 << 16, [&](std::int64_t begin, std::int64_t end) {
        copy_rows(input.as<const std::byte>(), to, width, whole.n * whole.inner * bytes, begin, end);
      });
    }
    to += width;
  }
}

}  // namespace sluice::detail
