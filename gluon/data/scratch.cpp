#include <mutex>
#include <utility>
#include <vector>

#include <sluice/engine/detail/fork_watch.h>
#include <sluice/gluon/data/detail/scratch.h>

namespace sluice::gluon::data::detail {

namespace {

struct Kept {
  std::mutex mutex;
  const sluice::detail::HeldOverForks over_forks{mutex};
  std::vector<std::vector<std::byte>> memory;
};

// For threads that end after static objects do as well.
Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

}  // namespace

Scratch::Scratch(std::size_t bytes) {
  {
    Kept& all = kept();
    const std::lock_guard hold(all.mutex);
    if (!all.memory.empty()) {
      memory_ = std::move(all.memory.back());
      all.memory.pop_back();
    }
  }
  if (memory_.size() < bytes)
    memory_.resize(bytes);
}

Scratch::~Scratch() {
  try {
    Kept& all = kept();
    const std::lock_guard hold(all.mutex);
    all.memory.push_back(std::move(memory_));
  } catch (...) {  // it goes back to the system then
  }
}

}  // namespace sluice::gluon::data::detail
