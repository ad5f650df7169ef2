#pragma once

#include <cstdint>
#include <mutex>

namespace sluice::detail {

enum class ForkMoment : std::uint8_t { before, in_parent, in_child };

/// Tells an owner of locks of every fork(), so that the child finds them free and what they guard whole: `before` takes
/// them, the other two give them back. Called on the thread that forks; `before` when no engine's tasks are being
/// linked, and after the locks of engines, so an owner's locks must not be held where an engine is called.
class ForkWatch {
 public:
  using Notice = void (*)(void* owner, ForkMoment moment) noexcept;

  ForkWatch(void* owner, Notice notice) noexcept;
  ForkWatch(const ForkWatch&) = delete;
  ForkWatch& operator=(const ForkWatch&) = delete;
  ~ForkWatch();

  void tell(ForkMoment moment) const noexcept { notice_(owner_, moment); }
  ForkWatch* next() const noexcept { return next_; }

 private:
  void* const owner_;
  const Notice notice_;
  ForkWatch* next_ = nullptr;  // of all in the process, the newest first
  ForkWatch* before_ = nullptr;
};

/// Takes a mutex before each fork(): the child finds it free, and what it guards whole. Under it nobody may lock what
/// is held so too, call an engine, or make or drop arrays.
class HeldOverForks {
 public:
  explicit HeldOverForks(std::mutex& mutex) noexcept
      : watch_(&mutex, [](void* held, ForkMoment moment) noexcept {
          auto& mutex = *static_cast<std::mutex*>(held);
          if (moment == ForkMoment::before)
            mutex.lock();
          else
            mutex.unlock();
        }) {}

 private:
  const ForkWatch watch_;
};

}  // namespace sluice::detail
