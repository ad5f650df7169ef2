#pragma once

#include <atomic>

namespace sluice::detail {

/// Who is told of pushes and bodies as they happen: a profiler, by way of engine/cuda/nvtx.cpp.
struct RangeHooks {
  void (*begin)(const char* kind, const char* name) noexcept;
  void (*end)(const char* kind) noexcept;
};
/// Null: nobody is told.
inline std::atomic<const RangeHooks*> range_hooks{nullptr};

/// Tells of a range from here to the end of the scope. One branch where nobody listens.
class NamedRange {
 public:
  static constexpr const char* k_push = "push";
  static constexpr const char* k_body = "body";

  NamedRange(const char* kind, const char* name) noexcept : hooks_(range_hooks.load(std::memory_order_relaxed)) {
    if (hooks_ != nullptr) [[unlikely]]
      begin(kind, name);
  }
  NamedRange(const NamedRange&) = delete;
  NamedRange& operator=(const NamedRange&) = delete;
  ~NamedRange() {
    if (hooks_ != nullptr) [[unlikely]]
      hooks_->end(kind_);
  }

 private:
  void begin(const char* kind, const char* name) noexcept {
    std::atomic_thread_fence(std::memory_order_acquire);
    kind_ = kind;
    hooks_->begin(kind, name);
  }

  const RangeHooks* hooks_;
  const char* kind_ = nullptr;
};

}  // namespace sluice::detail
