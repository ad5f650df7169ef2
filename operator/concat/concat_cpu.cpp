#include <algorithm>
#include <cstring>

#include <sluice/engine/parallel.h>
#include <sluice/operator/axis_layout.h>
#include <sluice/operator/concat/kernels.h>

namespace sluice::detail {

namespace {

// Bytes [begin, end) of rows that lie `width` apart in the source and `pitch` apart in the target.
void copy_rows(
    const std::byte* from,
    std::byte* to,
    std::int64_t width,
    std::int64_t pitch,
    std::int64_t begin,
    std::int64_t end) {
  while (begin < end) {
    const std::int64_t row = begin / width, column = begin % width;
    const std::int64_t count = std::min(width - column, end - begin);
    std::memcpy(to + row * pitch + column, from + begin, static_cast<std::size_t>(count));
    begin += count;
  }
}

}  // namespace

void concat_cpu(const KernelCall& call) {
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
