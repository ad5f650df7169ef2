#pragma once

namespace sluice::detail {

class SharedLibrary;

/// Gives the calling thread's OpenMP regions one thread while it lives: the order in which a library sums up follows
/// its team, and results are to be the same for any number of workers. To be used once oneDNN, which brings OpenMP, is
/// loaded; a no-op in builds without.
class OneThreadScope {
 public:
  OneThreadScope() noexcept;
  OneThreadScope(const OneThreadScope&) = delete;
  OneThreadScope& operator=(const OneThreadScope&) = delete;
  ~OneThreadScope();

 private:
  int before_ = 1;
};

#ifdef SLUICE_ONEDNN
/// Looks up what OneThreadScope calls of the OpenMP runtime that `library` has brought, if it has one.
void find_openmp(const SharedLibrary& library);
#endif

}  // namespace sluice::detail
