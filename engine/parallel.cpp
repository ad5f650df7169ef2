#include <sluice/engine/detail/core.h>
#include <sluice/engine/detail/engine_access.h>
#include <sluice/engine/parallel.h>

namespace sluice::detail {

void parallel_ranges(std::int64_t n, std::int64_t grain, void* context, RangeFunction run) {
  ThisThread& here = this_thread();
  if (here.in_parallel || n <= grain)
    return run(context, 0, n);
  Core& core = here.core != nullptr && here.scope == nullptr ? *here.core : EngineAccess::core(Engine::current());
  core.cpu().parallel(n, grain < 1 ? 1 : grain, context, run);
}

}  // namespace sluice::detail
