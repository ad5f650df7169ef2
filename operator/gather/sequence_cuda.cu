#include <cstring>

#include <sluice/ndarray/early_start.cuh>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/fault.cuh>
#include <sluice/operator/gather/sequence_walk.h>
#include <sluice/operator/group.cuh>
#include <sluice/operator/library/launch.cuh>

namespace sluice::detail {

namespace {

// Rows of `units` units, as wide as sizes and addresses allow.
template <class U>
__global__ void __launch_bounds__(k_group_block)
    sequence_kernel(const U* x, SequenceWalk walk, std::int64_t units, int width, U fill, ErrorWord* errors, U* y) {
  start_early();
  const Group group(width);
  for (std::int64_t row = group.index; row < walk.rows(); row += group.count) {
    const std::int64_t i = walk.sequence_of(row), source = walk.from(row, i);
    if (source == SequenceWalk::k_fault && group.lane == 0)
      report_index(errors, walk.length_of(i), walk.steps);
    const U* from = x + (source < 0 ? 0 : source) * units;
    for (std::int64_t at = group.lane; at < units; at += width)
      y[row * units + at] = source < 0 ? fill : from[at];
  }
}

}  // namespace

void sequence_gpu(const KernelCall& call, const TensorView& x, const SequenceRun& run) {
  const TensorView& y = call.outputs[0];
  if (y.size == 0)
    return;
  const auto element = static_cast<std::int64_t>(size_of(x.dtype));
  const std::int64_t bytes = run.inner * element;
  const auto alignment = reinterpret_cast<std::uintptr_t>(x.data) | reinterpret_cast<std::uintptr_t>(y.data) |
                         static_cast<std::uintptr_t>(bytes);
  const auto launch = [&]<class U>(std::int64_t units) {
    U fill;
    for (std::size_t at = 0; at < sizeof(U); at += static_cast<std::size_t>(element))
      std::memcpy(reinterpret_cast<std::byte*>(&fill) + at, &run.fill, static_cast<std::size_t>(element));
    const int width = units < 8 ? 1 : units <= 256 ? k_warp : k_group_block;
    sequence_kernel<<<blocks_for_groups(run.walk.rows(), width), k_group_block, 0, stream_of(call.queue)>>>(
        x.as<const U>(), run.walk, units, width, fill, call.queue.error_word(), y.as<U>());
  };
  if (alignment % sizeof(uint4) == 0)
    launch.template operator()<uint4>(bytes / static_cast<std::int64_t>(sizeof(uint4)));
  else
    by_element_size(size_of(x.dtype), [&]<class U>() { launch.template operator()<U>(run.inner); });
  check_early_launch(call.op.name, stream_of(call.queue));
}

}  // namespace sluice::detail
