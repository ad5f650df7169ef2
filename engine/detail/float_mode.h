#pragma once

#include <cstdint>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

namespace sluice::detail {

/// How a thread's floating-point arithmetic rounds, traps and treats denormals: MXCSR on x86, FPCR on AArch64.
/// Elsewhere nothing is known and nothing is changed.
class FloatMode {
 public:
  constexpr FloatMode() noexcept = default;

  /// The calling thread's.
  static FloatMode current() noexcept { return FloatMode(read() & ~k_raised); }

  /// The same, with denormals read and written as zero.
  constexpr FloatMode flushing() const noexcept { return FloatMode(word_ | k_flush); }
  constexpr bool flushes() const noexcept { return (word_ & k_flush) == k_flush; }

  /// Makes it the calling thread's. What exceptions its arithmetic has raised stays noted. Writing the register costs
  /// more than reading it, so it is left alone where it says so already.
  void install() const noexcept {
    const std::uint64_t now = read();
    if ((now & ~k_raised) != word_)
      write(word_ | (now & k_raised));
  }

  friend constexpr bool operator==(FloatMode, FloatMode) noexcept = default;

 private:
  constexpr explicit FloatMode(std::uint64_t word) noexcept : word_(word) {}

#if defined(__SSE__)
  static constexpr std::uint64_t k_flush = 0x8040;  // flush to zero; denormals are zero
  static constexpr std::uint64_t k_raised = 0x3f;   // which exceptions there were
  static std::uint64_t read() noexcept {
    return _mm_getcsr();
  }
  static void write(std::uint64_t word) noexcept {
    _mm_setcsr(static_cast<unsigned>(word));
  }
#elif defined(__aarch64__)
  static constexpr std::uint64_t k_flush = std::uint64_t{1} << 24;  // FZ: results and operands
  static constexpr std::uint64_t k_raised = 0;                      // stands in FPSR
  static std::uint64_t read() noexcept {
    std::uint64_t word;
    asm volatile("mrs %0, fpcr" : "=r"(word));
    return word;
  }
  static void write(std::uint64_t word) noexcept {
    asm volatile("msr fpcr, %0" : : "r"(word) : "memory");
  }
#else
  static constexpr std::uint64_t k_flush = 0;
  static constexpr std::uint64_t k_raised = 0;
  static std::uint64_t read() noexcept {
    return 0;
  }
  static void write(std::uint64_t) noexcept {}
#endif

  std::uint64_t word_ = 0;
};

/// What the engine knows of a thread's mode.
struct ThreadMode {
  bool flushing = false;  // a body that flushes denormals runs
  FloatMode own;          // while it does: what the thread has otherwise

  FloatMode without_body() const noexcept { return flushing ? own : FloatMode::current(); }
};

/// While it lives, the thread flushes denormals, or does as it does outside bodies that flush.
class BodyMode {
 public:
  BodyMode(ThreadMode& thread, bool flush) noexcept : thread_(thread), changed_(thread.flushing != flush) {
    if (!changed_)
      return;
    if (flush)
      thread_.own = FloatMode::current();
    thread_.flushing = flush;
    mode().install();
  }
  BodyMode(const BodyMode&) = delete;
  BodyMode& operator=(const BodyMode&) = delete;
  ~BodyMode() {
    if (!changed_)
      return;
    thread_.flushing = !thread_.flushing;
    mode().install();
  }

 private:
  FloatMode mode() const noexcept { return thread_.flushing ? thread_.own.flushing() : thread_.own; }

  ThreadMode& thread_;
  const bool changed_;
};

/// The mode of a thread that calls parallel_for, for those that help it.
struct LoopMode {
  bool flushing = false;
  FloatMode mode;

  static LoopMode of(const ThreadMode& thread) noexcept { return {thread.flushing, FloatMode::current()}; }
};

/// While it lives, the thread computes as the loop's caller does.
class HelperMode {
 public:
  HelperMode(ThreadMode& thread, const LoopMode& loop) noexcept
      : thread_(thread), before_(thread), mode_before_(FloatMode::current()) {
    thread_.own = thread.without_body();
    thread_.flushing = loop.flushing;
    loop.mode.install();
  }
  HelperMode(const HelperMode&) = delete;
  HelperMode& operator=(const HelperMode&) = delete;
  ~HelperMode() {
    mode_before_.install();
    thread_ = before_;
  }

 private:
  ThreadMode& thread_;
  const ThreadMode before_;
  const FloatMode mode_before_;
};

}  // namespace sluice::detail
