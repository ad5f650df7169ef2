#include <sluice/operator/library/team.h>

#ifdef SLUICE_ONEDNN
// Two functions of the OpenMP runtime, whichever compiler we are built with.
extern "C" int omp_get_max_threads();
extern "C" void omp_set_num_threads(int threads);
#endif

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
TeamScope::TeamScope(int threads) noexcept : before_(omp_get_max_threads()) {
  omp_set_num_threads(threads < 1 ? 1 : threads);
}
TeamScope::~TeamScope() {
  omp_set_num_threads(before_);
}
#else
TeamScope::TeamScope(int) noexcept : before_(1) {}
TeamScope::~TeamScope() = default;
#endif

}  // namespace sluice::detail
