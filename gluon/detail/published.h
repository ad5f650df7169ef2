#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::gluon::detail {

/// Says what one thread is reading. Made as threads need them, used again, never given back: as many as readings were
/// open at once. (M. Michael, "Hazard pointers", 2004.)
class alignas(64) ReadMark {
 public:
  /// One that nobody has.
  static ReadMark& take() {
    thread_local Own own;
    if (own.mark != nullptr && !own.lent) [[likely]] {
      own.lent = true;
      own.mark->lender_ = &own.lent;
      return *own.mark;
    }
    ReadMark& found = find();
    if (own.mark == nullptr) {  // stays with the thread
      own.mark = &found;
      own.lent = true;
      found.lender_ = &own.lent;
    }
    return found;
  }
  void give_back() noexcept {
    what_.store(nullptr, std::memory_order_release);
    if (lender_ != nullptr)
      *std::exchange(lender_, nullptr) = false;
    else
      taken_.store(false, std::memory_order_release);
  }

  /// In one order with what writers do: they exchange the pointer first, and look at the marks then.
  void set(const void* what) noexcept { what_.store(what); }
  static bool is_read(const void* what) noexcept {
    for (ReadMark* mark = first().load(); mark != nullptr; mark = mark->next_) {
      if (mark->what_.load() == what)
        return true;
    }
    return false;
  }

 private:
  struct Own {
    ReadMark* mark = nullptr;
    bool lent = false;
    Own() = default;
    Own(const Own&) = delete;
    Own& operator=(const Own&) = delete;
    ~Own() {
      if (mark != nullptr)
        mark->taken_.store(false, std::memory_order_release);
    }
  };

  static std::atomic<ReadMark*>& first() noexcept {
    static std::atomic<ReadMark*> list{nullptr};
    return list;
  }
  static ReadMark& find() {
    for (ReadMark* mark = first().load(std::memory_order_acquire); mark != nullptr; mark = mark->next_) {
      if (!mark->taken_.load(std::memory_order_relaxed) && !mark->taken_.exchange(true, std::memory_order_acquire))
        return *mark;
    }
    auto* const made = new ReadMark;
    made->next_ = first().load(std::memory_order_relaxed);
    while (!first().compare_exchange_weak(made->next_, made)) {
    }
    return *made;
  }

  std::atomic<const void*> what_{nullptr};
  std::atomic<bool> taken_{true};
  bool* lender_ = nullptr;  // the thread whose own it is, while lent
  ReadMark* next_ = nullptr;
};

/// Something that does not change, exchanged for another while threads read it: they take no lock and write to no
/// memory that they share. What was exchanged goes when nobody reads it any more, at the next publish() or at the end.
template <class T>
class Published {
 public:
  /// While it lives, what it points to stays.
  class Reading {
   public:
    explicit Reading(const Published& of) : mark_(ReadMark::take()) {
      at_ = of.current_.load(std::memory_order_acquire);
      for (;;) {
        mark_.set(at_);
        const T* const again = of.current_.load();
        if (again == at_)
          return;
        at_ = again;
      }
    }
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    ~Reading() { mark_.give_back(); }

    explicit operator bool() const noexcept { return at_ != nullptr; }
    const T& operator*() const noexcept { return *at_; }
    const T* operator->() const noexcept { return at_; }

   private:
    ReadMark& mark_;
    const T* at_;
  };

  Published() = default;
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  /// Nobody reads.
  ~Published() { delete current_.load(); }

  /// One thread at a time, as for latest(). What nobody reads any more is returned, to be dropped without locks.
  [[nodiscard]] std::vector<std::unique_ptr<const T>> publish(std::unique_ptr<const T> next) {
    past_.reserve(past_.size() + 1);
    std::vector<std::unique_ptr<const T>> gone;
    gone.reserve(past_.size() + 1);
    if (const T* const before = current_.exchange(next.release()); before != nullptr)
      past_.emplace_back(before);
    const auto unread =
        std::partition(past_.begin(), past_.end(), [](const auto& one) { return ReadMark::is_read(one.get()); });
    std::move(unread, past_.end(), std::back_inserter(gone));
    past_.erase(unread, past_.end());
    return gone;
  }
  /// For who publishes.
  const T* latest() const noexcept { return current_.load(std::memory_order_relaxed); }

 private:
  std::atomic<const T*> current_{nullptr};
  std::vector<std::unique_ptr<const T>> past_;
};

}  // namespace sluice::gluon::detail
