#include <sluice/operator/library/team.h>

#ifdef SLUICE_ONEDNN
#include <cstdlib>
#include <mutex>
#include <unistd.h>

#include <boost/thread/thread.hpp>

// Of the OpenMP runtime, whichever compiler we are built with; GOMP_parallel is its interface to compiled regions.
extern "C" int omp_get_max_threads();
extern "C" int omp_get_num_procs();
extern "C" void omp_set_num_threads(int threads);
extern "C" void GOMP_parallel(void (*region)(void*), void* data, unsigned threads, unsigned flags);
#endif

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

// Between two regions libgomp's threads spin for milliseconds on cores that our workers need, unless it manages more
// threads than there are cores: then for microseconds. Its own switch is an environment variable, read before any of
// our code runs. So one thread keeps a team larger than the machine, asleep for the life of the process.
void keep_openmp_passive() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
    return;
  boost::thread([] {
    GOMP_parallel([](void*) {}, nullptr, static_cast<unsigned>(omp_get_num_procs()) + 1, 0);
    for (;;)
      ::pause();
  }).detach();
}

}  // namespace

TeamScope::TeamScope(int threads) noexcept : before_(omp_get_max_threads()) {
  static std::once_flag once;
  if (threads > 1)
    std::call_once(once, keep_openmp_passive);
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
