#pragma once

// What ThreadSanitizer is to know of the simulator: nothing of its locks, only the order that CUDA promises. Without
// this, the lock under which work is handed out would order everything, and no missing wait would show.
#include <cstdint>
#include <functional>
#include <memory>

#include "tests/support/plenty.h"

#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#include <ucontext.h>

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

 private:
  Plenty plenty_;
};

/// Back in sight for a moment, within Unseen.
class Seen {
 public:
  Seen() noexcept { look_again(); }
  Seen(const Seen&) = delete;
  Seen& operator=(const Seen&) = delete;
  ~Seen() { look_away(); }
};

/// A point in time that others may come after: `reached` happens before every later `follow`. Both within Unseen.
class Point {
 public:
#if defined(__SANITIZE_THREAD__)
  void reached() noexcept {
    const Seen seen;
    __tsan_release(&word_);
  }
  void follow() noexcept {
    const Seen seen;
    __tsan_acquire(&word_);
  }
#else
  void reached() noexcept {}
  void follow() noexcept {}
#endif

 private:
  alignas(8) std::uint64_t word_ = 0;
};

/// A line of execution of its own: bodies run on few threads, but two of different streams are in no order for
/// ThreadSanitizer. There each has a stack of its own too, or what two of them left on one stack would seem to race.
class Strand {
 public:
#if defined(__SANITIZE_THREAD__)
  Strand();
  ~Strand();
#else
  Strand() = default;
#endif
  Strand(const Strand&) = delete;
  Strand& operator=(const Strand&) = delete;

  /// Runs `act` on this thread. It must not refer to anything on the caller's stack.
  void run(std::function<void()> act);

#if defined(__SANITIZE_THREAD__)
 private:
  static void loop(unsigned high, unsigned low);

  void* fiber_;
  void* caller_ = nullptr;
  std::unique_ptr<char[]> stack_;
  ucontext_t own_{}, back_{};
  std::function<void()> act_;
#endif
};

}  // namespace sluice::test::sim
