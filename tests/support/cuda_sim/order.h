#pragma once

// What ThreadSanitizer is to know of the simulator: nothing of its locks, only the order that CUDA promises. Without
// this, the lock under which work is handed out would order everything, and no missing wait would show.
#include <cstdint>

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>

extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateIgnoreReadsBegin(const char* file, int line);
void AnnotateIgnoreReadsEnd(const char* file, int line);
void AnnotateIgnoreWritesBegin(const char* file, int line);
void AnnotateIgnoreWritesEnd(const char* file, int line);
}
#endif

namespace sluice::test::sim {

/// A point in time that others may come after. `reached` happens before every later `follow`.
class Point {
 public:
#if defined(__SANITIZE_THREAD__)
  void reached() noexcept {
    __tsan_release(&word_);
  }
  void follow() noexcept {
    __tsan_acquire(&word_);
  }
#else
  void reached() noexcept {}
  void follow() noexcept {}
#endif

 private:
  alignas(8) std::uint64_t word_ = 0;
};

inline void look_away() noexcept {
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
#endif
}

inline void look_again() noexcept {
#if defined(__SANITIZE_THREAD__)
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
#endif
}

/// The inside of the simulator, unseen.
class Unseen {
 public:
  Unseen() noexcept { look_away(); }
  Unseen(const Unseen&) = delete;
  Unseen& operator=(const Unseen&) = delete;
  ~Unseen() { look_again(); }
};

/// Back in sight for a moment, within Unseen.
class Seen {
 public:
  Seen() noexcept { look_again(); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  ~Seen() { look_away(); }
};

/// A line of execution of its own: bodies run on few threads, but two of different streams are in no order for it.
class Strand {
 public:
#if defined(__SANITIZE_THREAD__)
  Strand() : fiber_(__tsan_create_fiber(0)) {}
  ~Strand() {
    __tsan_destroy_fiber(fiber_);
  }
  template <class Act>
  void run(Act&& act) {
    void* const before = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(fiber_, __tsan_switch_to_fiber_no_sync);
    act();
    __tsan_switch_to_fiber(before, __tsan_switch_to_fiber_no_sync);
  }
#else
  Strand() = default;
  template <class Act>
  void run(Act&& act) {
    act();
  }
#endif
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

 private:
#if defined(__SANITIZE_THREAD__)
  void* fiber_;
#endif
};

}  // namespace sluice::test::sim
