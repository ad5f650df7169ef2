// Programs on a CPU: tiles in parallel.
#include <algorithm>

#include <sluice/engine/parallel.h>
#include <sluice/operator/fused/detail/tiles.h>
#include <sluice/operator/fused/fused.h>

namespace sluice::fused {

void run_on_cpu(const KernelCall& call) {
  constexpr std::int64_t k_grain = 8192;  // elements of one call that are worth a thread
  if (call.outputs[0].size == 0)
    return;
  const TileJob job(interned(call.attributes), call.inputs, call.outputs);
  const std::int64_t tiles = (job.size + job.tile - 1) / job.tile;
  const auto calls = static_cast<std::int64_t>(job.schedule.steps.size());
  const std::int64_t grain = std::max<std::int64_t>(1, k_grain / (job.tile * std::max<std::int64_t>(1, calls)));
  parallel_for(tiles, grain, [&](std::int64_t begin, std::int64_t end) {
    Tiles mine(job);
    for (std::int64_t number = begin; number < end; ++number)
      mine.run(number * job.tile, std::min(job.tile, job.size - number * job.tile));
  });
}

}  // namespace sluice::fused
