#include <algorithm>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <sluice/ndarray/detail/array_object.h>
#include <sluice/operator/graph/detail/kept_results.h>

namespace sluice::graph {

namespace {

/// Asked where memory has a second user, which seldom is, and changed where plans are new.
struct Register {
  std::mutex mutex = {};
  std::unordered_set<const void*> buffers = {};

  static Register& get() {
    static auto* const one = new Register;  // outlives all plans
    return *one;
  }
};

void forget(std::unordered_set<const void*>& buffers, const Arrays& arrays) noexcept {
  for (const NDArray& array : arrays)
    buffers.erase(array.object()->buffer);
}

}  // namespace

KeptResults::KeptResults(Arrays arrays) : arrays_(std::move(arrays)) {
  Register& known = Register::get();
  const std::lock_guard hold(known.mutex);
  try {
    for (const NDArray& array : arrays_)
      known.buffers.insert(array.object()->buffer);
  } catch (...) {  // no destructor follows
    forget(known.buffers, arrays_);
    throw;
  }
}

KeptResults::~KeptResults() {
  Register& known = Register::get();
  const std::lock_guard hold(known.mutex);
  forget(known.buffers, arrays_);
}

bool KeptResults::are_unused() const noexcept {
  return std::all_of(
      arrays_.begin(), arrays_.end(), [](const NDArray& array) { return array.object()->buffer->use_count() == 1; });
}

bool KeptResults::hold(const void* buffer) const noexcept {
  return std::any_of(
      arrays_.begin(), arrays_.end(), [&](const NDArray& array) { return array.object()->buffer == buffer; });
}

bool KeptResults::any_holds(const void* buffer) {
  Register& known = Register::get();
  const std::lock_guard hold(known.mutex);
  return known.buffers.count(buffer) != 0;
}

}  // namespace sluice::graph
