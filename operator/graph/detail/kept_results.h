#pragma once

#include <sluice/operator/operator.h>

namespace sluice::graph {

/// Memory of a plan's results that serves again once nobody else has any of it: then nothing is taken from the pools,
/// which other threads use too, and what a GPU has recorded for these addresses serves again.
class KeptResults {
 public:
  /// Arrays that nobody else has.
  explicit KeptResults(Arrays arrays);
  KeptResults(const KeptResults&) = delete;
  KeptResults& operator=(const KeptResults&) = delete;
  ~KeptResults();

  const Arrays& arrays() const noexcept { return arrays_; }
  bool are_unused() const noexcept;
  bool hold(const void* buffer) const noexcept;

  /// Does some plan of the process keep this sluice::detail::Buffer? One of its users is then no array.
  static bool any_holds(const void* buffer);

 private:
  const Arrays arrays_;
};

}  // namespace sluice::graph
