#pragma once

#include <atomic>
#include <cstddef>

namespace sluice::detail {

/// Says what somebody is reading; null: free. On a cache line of its own.
template <template <class> class Atomic>
struct alignas(64) BasicReadMark {
  Atomic<const void*> what{nullptr};
};

/// Marks for as many readings as are open at once, never fewer again. Any thread. (M. Michael, "Hazard pointers", 2004;
/// but nobody owns one, so that no thread has any to give up when it ends.) A checker brings its own `Atomic`.
template <template <class> class Atomic, std::size_t Count>
class BasicReadMarks {
 public:
  using Mark = BasicReadMark<Atomic>;

  ~BasicReadMarks() { delete more_.load(std::memory_order_relaxed); }

  /// A free one that now says `what`, which is not null: the one numbered `first` if it can be, which should be another
  /// for each thread. Throws std::bad_alloc.
  Mark& claim(const void* what, std::size_t first) {
    for (std::size_t i = 0; i < Count; ++i) {
      if (Mark& mark = marks_[(first + i) % Count]; takes(mark, what))
        return mark;
    }
    return next().claim(what, first);
  }

  /// Does a mark say `what`?
  bool is_read(const void* what) const {
    for (const BasicReadMarks* some = this; some != nullptr; some = some->more_.load(std::memory_order_seq_cst)) {
      for (const Mark& mark : some->marks_) {
        if (mark.what.load(std::memory_order_seq_cst) == what)
          return true;
      }
    }
    return false;
  }

 private:
  static bool takes(Mark& mark, const void* what) {
    for (const void* now = mark.what.load(std::memory_order_relaxed); now == nullptr;) {
      if (mark.what.compare_exchange_weak(now, what, std::memory_order_seq_cst, std::memory_order_relaxed))
        return true;
    }
    return false;
  }

  // Who looks for marks sees this one's, or comes first.
  BasicReadMarks& next() {
    BasicReadMarks* there = more_.load(std::memory_order_acquire);
    if (there != nullptr)
      return *there;
    auto* const made = new BasicReadMarks;
    while (there == nullptr) {
      if (more_.compare_exchange_weak(there, made, std::memory_order_seq_cst, std::memory_order_acquire))
        return *made;
    }
    delete made;
    return *there;
  }

  Mark marks_[Count];
  Atomic<BasicReadMarks*> more_{nullptr};
};

/// A pointer that threads read while one exchanges it. A reader says what it will read and looks whether it still
/// stands; the writer exchanges it and looks whether anybody says so: in one order of all four, one sees the other.
template <class T, template <class> class Atomic>
class BasicMarkedPointer {
 public:
  using Mark = BasicReadMark<Atomic>;
  struct Entered {
    const T* at = nullptr;  // stays until leave()
    Mark* mark = nullptr;
  };

  /// As BasicReadMarks::claim().
  template <class Marks>
  Entered enter(Marks& marks, std::size_t first) const {
    const T* seen = current_.load(std::memory_order_relaxed);
    if (seen == nullptr)
      return {};
    Mark& mark = marks.claim(seen, first);
    for (;;) {
      const T* const again = current_.load(std::memory_order_seq_cst);
      if (again == seen)  // perhaps another one at its place, which is as good
        return {again, &mark};
      seen = again;
      mark.what.store(seen, std::memory_order_seq_cst);
    }
  }
  static void leave(const Entered& entered) {
    if (entered.mark != nullptr)
      entered.mark->what.store(nullptr, std::memory_order_release);
  }

  /// One thread at a time; `next` is not null. What it returns may go once no mark says it.
  const T* exchange(const T* next) { return current_.exchange(next, std::memory_order_seq_cst); }
  /// For who exchanges.
  const T* latest() const { return current_.load(std::memory_order_relaxed); }

 private:
  Atomic<const T*> current_{nullptr};
};

}  // namespace sluice::detail
