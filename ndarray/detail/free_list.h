#pragma once

#include <cstddef>
#include <new>

#include <sluice/engine/detail/node_pool.h>

namespace sluice::detail {

/// Memory for objects of one type, recycled as the engine recycles tasks: a thread's own at hand without a lock,
/// through a shared depot in halves of 128, so that a thread that only makes and one that only drops meet once in 64
/// objects. Threads may end and processes fork at any time. Kept until the process ends. Under the address sanitizer it
/// is plain new and delete. Throws std::bad_alloc.
template <class T>
class FreeList {
 public:
  static void* take() {
#if !defined(__SANITIZE_ADDRESS__)
    return Pool::take();
#else
    return ::operator new (sizeof(Cell), std::align_val_t{alignof(Cell)});
#endif
  }
  static void give(void* memory) noexcept {
#if !defined(__SANITIZE_ADDRESS__)
    Pool::give(::new (memory) Cell);
#else
    ::operator delete (memory, std::align_val_t{alignof(Cell)});
#endif
  }

 private:
  union alignas(64) Cell {
    Cell* next;
    alignas(T) std::byte bytes[sizeof(T)];

    Cell() noexcept : next(nullptr) {}
  };
  using Pool = NodePool<Cell, &Cell::next>;
};

}  // namespace sluice::detail
