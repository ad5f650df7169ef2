#pragma once

#include <atomic>

#include <sluice/ndarray/dtype.h>

namespace sluice::detail {

class SharedLibrary;

/// Whether an operator on elements of that type may find a library with a team of threads of its own on a CPU. If not,
/// it should not ask for a team: its own loops find more threads without.
bool may_use_team(DType dtype) noexcept;

/// Gives the calling thread's OpenMP regions up to `threads` threads while it lives: one, if the system has no more
/// to give. To be used once oneDNN, which brings OpenMP, is loaded; a no-op in builds without.
class TeamScope {
 public:
  explicit TeamScope(int threads) noexcept;
  TeamScope(const TeamScope&) = delete;
  TeamScope& operator=(const TeamScope&) = delete;
  ~TeamScope();

  int threads() const noexcept { return threads_; }

 private:
  int before_;
  int threads_;
};

#ifdef SLUICE_ONEDNN
/// Looks up what TeamScope calls of the OpenMP runtime that `library` has brought, if it has one.
void find_openmp(const SharedLibrary& library);
/// For tests: while it is true, the system has no threads for a team that was not had before.
std::atomic<bool>& plant_no_threads() noexcept;
#endif

}  // namespace sluice::detail
