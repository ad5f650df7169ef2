#pragma once

#include <memory>

#include <sluice/engine/detail/node_pool.h>
#include <sluice/operator/update/work.h>

namespace sluice::detail {

/// Work of a step, which serves again with the room of its lists once the step is over: a steady program takes none
/// from the heap.
struct RecycledWork : UpdateWork {
  RecycledWork* next = nullptr;
};

using WorkPool = NodePool<RecycledWork, &RecycledWork::next>;

struct GiveWorkBack {
  void operator()(RecycledWork* work) const noexcept {
    work->pieces.clear();
    work->numbers = work->guard = nullptr;
    work->factored.reset();
    WorkPool::give(work);
  }
};
using OwnedWork = std::unique_ptr<RecycledWork, GiveWorkBack>;

/// Throws std::bad_alloc.
inline OwnedWork new_work() {
  return OwnedWork(WorkPool::take());
}

}  // namespace sluice::detail
