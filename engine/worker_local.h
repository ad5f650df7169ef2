#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include <sluice/engine/export.h>

namespace sluice {

namespace detail {
inline constexpr int k_local_places = 64;
/// A number below k_local_places - 1 that no other living thread has; that itself where there are more threads.
SLUICE_API int local_place() noexcept;
}  // namespace detail

/// A T for each thread that runs bodies: scratch memory, a partial sum. Made where local() is first called on a thread,
/// by `make`; kept until this ends; a thread that comes after another one has ended may take over what that had.
/// Finding it takes no lock, but where more than 63 threads live.
///
///     WorkerLocal<std::vector<float>> scratch([] { return std::vector<float>(4096); });
///     engine.push({.name = "filter", .access = {write(y)}}, [&] { filter(scratch.local()); });
///
/// A body that waits may have another one run on top of it on the same thread, which finds the same T: use no reference
/// across a wait or a co_await.
template <class T>
class WorkerLocal {
 public:
  explicit WorkerLocal(std::function<T()> make = [] { return T(); }) : make_(std::move(make)) {}
  WorkerLocal(const WorkerLocal&) = delete;
  WorkerLocal& operator=(const WorkerLocal&) = delete;
  ~WorkerLocal() {
    for (auto& place : places_)
      delete place.load();
  }

  /// The calling thread's own. Throws what `make` throws.
  T& local() {
    const int place = detail::local_place();
    if (place == detail::k_local_places - 1)
      return crowded();
    std::atomic<T*>& mine = places_[static_cast<std::size_t>(place)];
    T* there = mine.load(std::memory_order_acquire);
    if (there == nullptr) {
      there = new T(make_());
      mine.store(there, std::memory_order_release);
    }
    return *there;
  }

  /// Calls visit(T&) for each that was made. Not while bodies use theirs.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (auto& place : places_) {
      if (T* there = place.load(std::memory_order_acquire))
        visit(*there);
    }
    const std::lock_guard hold(mutex_);
    for (auto& [thread, there] : crowd_)
      visit(*there);
  }

 private:
  T& crowded() {
    const std::lock_guard hold(mutex_);
    std::unique_ptr<T>& mine = crowd_[std::this_thread::get_id()];
    if (mine == nullptr)
      mine = std::make_unique<T>(make_());
    return *mine;
  }

  const std::function<T()> make_;
  std::array<std::atomic<T*>, detail::k_local_places> places_{};
  std::mutex mutex_;
  std::unordered_map<std::thread::id, std::unique_ptr<T>> crowd_;
};

}  // namespace sluice
