#include <sluice/operator/library/one_thread.h>

#ifdef SLUICE_ONEDNN
#include <sluice/operator/library/shared_library.h>
#endif

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

// Of the OpenMP runtime, whichever compiler oneDNN was built with.
struct OpenMp {
  int (*max_threads)() = nullptr;
  void (*set_threads)(int threads) = nullptr;

  bool can_set() const noexcept { return max_threads != nullptr && set_threads != nullptr; }
} openmp;

}  // namespace

void find_openmp(const SharedLibrary& library) {
  library.find_as_it_does("omp_get_max_threads", openmp.max_threads);
  library.find_as_it_does("omp_set_num_threads", openmp.set_threads);
}

OneThreadScope::OneThreadScope() noexcept {
  if (!openmp.can_set())
    return;
  before_ = openmp.max_threads();
  openmp.set_threads(1);
}
OneThreadScope::~OneThreadScope() {
  if (openmp.can_set())
    openmp.set_threads(before_);
}
#else
OneThreadScope::OneThreadScope() noexcept = default;
OneThreadScope::~OneThreadScope() = default;
#endif

}  // namespace sluice::detail
