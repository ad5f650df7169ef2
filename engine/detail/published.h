#pragma once

#include <algorithm>
#include <atomic>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include <sluice/engine/detail/read_marks.h>
#include <sluice/engine/detail/thread_number.h>

namespace sluice::detail {

using ReadMarks = BasicReadMarks<std::atomic, 64>;

/// The process's; they outlive all that is static.
inline ReadMarks& read_marks() {
  static auto* const marks = new ReadMarks;
  return *marks;
}

/// Something that does not change, exchanged for another while threads read it: they take no lock and write to no
/// memory that they share. What was exchanged goes when nobody reads it any more, at the next publish() or at the end.
template <class T>
class Published {
  using Pointer = BasicMarkedPointer<T, std::atomic>;

 public:
  /// While it lives, what it points to stays. Throws std::bad_alloc, when more are open than ever before.
  class Reading {
   public:
    explicit Reading(const Published& of) : entered_(of.current_.enter(read_marks(), this_thread_number())) {}
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading() { Pointer::leave(entered_); }

    explicit operator bool() const noexcept { return entered_.at != nullptr; }
    const T& operator*() const noexcept { return *entered_.at; }
    const T* operator->() const noexcept { return entered_.at; }

   private:
    const typename Pointer::Entered entered_;
  };

  Published() = default;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  /// Nobody reads.
  ~Published() { delete current_.latest(); }

  /// One thread at a time, as for latest(). What nobody reads any more is returned, to be dropped without locks. Throws
  /// std::bad_alloc, in which case all is as before.
  [[nodiscard]] std::vector<std::unique_ptr<const T>> publish(std::unique_ptr<const T> next) {
    past_.reserve(past_.size() + 1);
    std::vector<std::unique_ptr<const T>> gone;
    gone.reserve(past_.size() + 1);
    if (const T* const before = current_.exchange(next.release()); before != nullptr)
      past_.emplace_back(before);
    const auto unread =
        std::partition(past_.begin(), past_.end(), [](const auto& one) { return read_marks().is_read(one.get()); });
    std::move(unread, past_.end(), std::back_inserter(gone));
    past_.erase(unread, past_.end());
    return gone;
  }
  /// For who publishes.
  const T* latest() const noexcept { return current_.latest(); }

 private:
  Pointer current_;
  std::vector<std::unique_ptr<const T>> past_;
};

}  // namespace sluice::detail
