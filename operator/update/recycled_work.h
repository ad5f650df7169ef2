#pragma once

#include <memory>
#include <utility>
#include <vector>

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
    std::vector<UpdatePiece> room = std::move(work->pieces);
    room.clear();
    static_cast<UpdateWork&>(*work) =
        UpdateWork{.pieces = std::move(room)};  // nothing else of a step is left to the next
    WorkPool::give(work);
  }
};
using OwnedWork = std::unique_ptr<RecycledWork, GiveWorkBack>;

/// Throws std::bad_alloc.
inline OwnedWork new_work() {
  return OwnedWork(WorkPool::take());
}

}  // namespace sluice::detail
