#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include <sluice/engine/detail/node_pool.h>

namespace sluice::detail {

/// Something that threads lock and write for long: of a forked child's parent they may be halfway, and never come to
/// the end. The child makes it anew, and leaves the parent's where it is.
template <class T>
class PerProcess {
  struct Made {
    const std::uint32_t forks = fork_count();
    std::unique_ptr<T> value;

    explicit Made(std::unique_ptr<T> of) noexcept : value(std::move(of)) {}
    bool is_ours() const noexcept { return forks == fork_count(); }
  };

 public:
  PerProcess() = default;
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;
  ~PerProcess() {
    if (const Made* const made = now_.load(std::memory_order_acquire); made != nullptr && made->is_ours())
      delete made;
  }

  /// `make` gives a std::unique_ptr<T> where this process has none; of threads that do so at once one's stays.
  template <class Make>
  T& get(Make&& make) {
    Made* made = now_.load(std::memory_order_acquire);
    if (made != nullptr && made->is_ours()) [[likely]]
      return *made->value;
    auto fresh = std::make_unique<Made>(make());
    if (now_.compare_exchange_strong(made, fresh.get(), std::memory_order_acq_rel))
      made = fresh.release();
    return *made->value;
  }
  T& get() {
    return get([] { return std::make_unique<T>(); });
  }

 private:
  std::atomic<Made*> now_{nullptr};
};

}  // namespace sluice::detail
