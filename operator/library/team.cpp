#include <sluice/operator/library/team.h>

#ifdef SLUICE_ONEDNN
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <unistd.h>
#include <vector>

#include <boost/thread/thread.hpp>

#include <sluice/operator/library/shared_library.h>
#endif

namespace sluice::detail {

#ifdef SLUICE_ONEDNN
namespace {

// Of the OpenMP runtime, whichever compiler oneDNN was built with; GOMP_parallel is its interface to compiled regions.
struct OpenMp {
  int (*max_threads)() = nullptr;
  int (*processors)() = nullptr;
  void (*set_threads)(int threads) = nullptr;
  void (*parallel)(void (*region)(void*), void* data, unsigned threads, unsigned flags) = nullptr;

  bool can_set() const noexcept { return max_threads != nullptr && set_threads != nullptr; }
} openmp;

void start_and_end(int threads) {
  if (plant_no_threads().load(std::memory_order_relaxed))
    throw boost::thread_resource_error();
  std::mutex all_there;
  std::vector<boost::thread> made;
  const std::unique_lock hold(all_there);
  struct Join {
    std::vector<boost::thread>& made;
    std::mutex& gate;
    ~Join() {
      gate.unlock();
      for (boost::thread& thread : made)
        thread.join();
      gate.lock();
    }
  } const join{made, all_there};
  for (int i = 0; i < threads; ++i)
    made.emplace_back([&all_there] { const std::lock_guard pass(all_there); });
}

// libgomp ends the process where it cannot start a thread. So as many as a team needs are started beside each other
// first, by us; a team that was had once is kept, and not asked for again.
bool can_start(int threads) noexcept {
  static std::atomic<int> most{0};
  if (threads <= most.load(std::memory_order_relaxed))
    return true;
  try {
    start_and_end(threads);
  } catch (const std::exception&) {
    return false;
  }
  most.store(std::max(threads, most.load()));
  return true;
}

// Between two regions libgomp's threads spin for milliseconds on cores that our workers need, unless it manages more
// threads than there are cores: then for microseconds. Its own switch is an environment variable, read before any of
// our code runs. So one thread keeps a team larger than the machine, asleep for the life of the process. Where there
// are no threads to be had for it, they spin.
void keep_openmp_passive() noexcept {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr || std::getenv("GOMP_SPINCOUNT") != nullptr)
    return;
  if (openmp.parallel == nullptr || openmp.processors == nullptr || !can_start(openmp.processors() + 1))
    return;
  try {
    boost::thread([] {
      openmp.parallel([](void*) {}, nullptr, static_cast<unsigned>(openmp.processors()) + 1, 0);
      for (;;)
        ::pause();
    }).detach();
  } catch (const std::exception&) {
  }
}

// By whoever comes first; a lock would be one that a forked child finds taken.
void keep_openmp_passive_once() noexcept {
  static std::atomic<bool> begun{false};
  if (!begun.exchange(true, std::memory_order_relaxed))
    keep_openmp_passive();
}

}  // namespace

std::atomic<bool>& plant_no_threads() noexcept {
  static std::atomic<bool> planned{false};
  return planned;
}

void find_openmp(const SharedLibrary& library) {
  library.find_as_it_does("omp_get_max_threads", openmp.max_threads);
  library.find_as_it_does("omp_get_num_procs", openmp.processors);
  library.find_as_it_does("omp_set_num_threads", openmp.set_threads);
  library.find_as_it_does("GOMP_parallel", openmp.parallel);
}

bool may_use_team(DType dtype) noexcept {
  return dtype == DType::float32 && !onednn_library().is_missing();
}

TeamScope::TeamScope(int threads) noexcept : before_(1), threads_(threads > 1 && can_start(threads - 1) ? threads : 1) {
  if (!openmp.can_set())
    return;
  before_ = openmp.max_threads();
  if (threads_ > 1)
    keep_openmp_passive_once();
  openmp.set_threads(threads_);
}
TeamScope::~TeamScope() {
  if (openmp.can_set())
    openmp.set_threads(before_);
}
#else
bool may_use_team(DType) noexcept {
  return false;
}
TeamScope::TeamScope(int) noexcept : before_(1), threads_(1) {}
TeamScope::~TeamScope() = default;
#endif

}  // namespace sluice::detail
