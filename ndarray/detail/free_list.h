#pragma once

#include <cstddef>
#include <mutex>
#include <new>
#include <utility>

namespace sluice::detail {

/// Memory for objects of one type. Each thread keeps a short list; lists that grow too long go to a shared shelf in
/// one piece, and come from there, so that a thread that only makes and one that only drops meet rarely. Memory is
/// kept until the process ends. Under the address sanitizer it is plain new and delete.
template <class T>
class FreeList {
 public:
  static void* take() {
#if !defined(__SANITIZE_ADDRESS__)
    if (local_.head == nullptr && !local_.refill())
      return ::operator new (sizeof(Cell), std::align_val_t{alignof(Cell)});
    --local_.count;
    return std::exchange(local_.head, local_.head->next);
#else
    return ::operator new (sizeof(Cell), std::align_val_t{alignof(Cell)});
#endif
  }
  static void give(void* memory) noexcept {
#if !defined(__SANITIZE_ADDRESS__)
    Cell* cell = ::new (memory) Cell;
    cell->next = local_.head;
    local_.head = cell;
    if (++local_.count >= k_batch)
      local_.spill();
    if (!watch_.armed)
      watch_.arm();
#else
    ::operator delete (memory, std::align_val_t{alignof(Cell)});
#endif
  }

 private:
  static constexpr std::size_t k_batch = 64;

  union Cell {
    Cell* next;
    alignas(T) std::byte bytes[sizeof(T)];
  };
  /// Lists of k_batch cells (at a thread's end: fewer). Leaked: objects may outlive every static destructor.
  struct Shelf {
    std::mutex mutex;
    struct Batch {
      Cell* head;
      std::size_t count;
      Batch* next;
    };
    Batch* batches = nullptr;
  };
  static Shelf& shelf() {
    static Shelf& made = *new Shelf;
    return made;
  }
  /// Trivial, so usable at any time of a thread's life.
  struct Local {
    Cell* head;
    std::size_t count;

    bool refill() noexcept {
      Shelf& from = shelf();
      typename Shelf::Batch* batch = nullptr;
      {
        const std::lock_guard lock(from.mutex);
        if (from.batches == nullptr)
          return false;
        batch = std::exchange(from.batches, from.batches->next);
      }
      head = batch->head;
      count = batch->count;
      delete batch;
      return true;
    }
    void spill() noexcept {
      auto* batch = new (std::nothrow) typename Shelf::Batch{head, count, nullptr};
      if (batch == nullptr)
        return;  // the list grows on; the next call tries again
      head = nullptr;
      count = 0;
      Shelf& to = shelf();
      const std::lock_guard lock(to.mutex);
      batch->next = std::exchange(to.batches, batch);
    }
  };
  /// Passes a thread's list on when the thread ends.
  struct Watch {
    bool armed = false;
    void arm() noexcept { armed = true; }
    ~Watch() {
      if (local_.head != nullptr)
        local_.spill();
    }
  };
  static inline thread_local constinit Local local_{nullptr, 0};
  static inline thread_local Watch watch_;
};

}  // namespace sluice::detail
