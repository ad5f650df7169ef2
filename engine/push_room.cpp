#include <new>
#include <utility>

#include <sluice/engine/detail/block_pool.h>
#include <sluice/engine/detail/node_pool.h>
#include <sluice/engine/detail/push_room.h>
#include <sluice/engine/detail/task_node.h>

namespace sluice::detail {

namespace {

using TaskPool = NodePool<TaskNode, &TaskNode::next>;
constexpr std::size_t k_small = 128;

template <class Block>
void add_block(Block*& list, std::size_t bytes) {
  list = ::new (take_block(bytes)) Block{list};
}

template <class Block>
void give_all(Block*& list, std::size_t bytes) noexcept {
  while (list != nullptr)
    give_block(std::exchange(list, list->next), bytes);
}

}  // namespace

PushRoom::PushRoom(int pushes) {
  try {
    take(pushes);
  } catch (...) {
    open();
    throw;
  }
}

void PushRoom::take(int pushes) {
  for (int i = 0; i < pushes; ++i) {
    TaskNode* const node = TaskPool::take();
    node->next = std::exchange(nodes_, node);
    add_block(small_, k_small);
    add_block(extras_, sizeof(TaskExtras));
  }
}

void PushRoom::open() noexcept {
  while (nodes_ != nullptr)
    TaskPool::give(std::exchange(nodes_, nodes_->next));
  give_all(small_, k_small);
  give_all(extras_, sizeof(TaskExtras));
}

}  // namespace sluice::detail
