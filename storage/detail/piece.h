#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <sluice/engine/position.h>

namespace sluice::detail {

struct Segment;

/// A stretch of a segment. Neighbours by address are linked; a free piece also lies in a list of its pool's choice.
struct Piece {
  enum class State : std::uint8_t {
    free,
    live,    // on loan, or being changed by somebody
    absent,  // addresses without memory: in segments of pages
  };

  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::size_t requested = 0;  // what was asked for; 0 when free
  Piece* left = nullptr;      // neighbours in the segment
  Piece* right = nullptr;
  Piece* before = nullptr;  // neighbours in the list of free pieces
  Piece* next = nullptr;
  Segment* segment = nullptr;
  std::uint64_t stamp = 0;  // when it came back: counts releases of the pool
  PositionSet pending;      // of a free piece: what may still use it
  std::uint32_t bin = 0;    // which list
  State state = State::free;

  bool is_free() const noexcept { return state == State::free; }
  bool is_live() const noexcept { return state == State::live; }
};

/// What one call of the source gave, or addresses that pages come to and go from. Its pieces cover it without gaps.
struct Segment {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  Piece* first = nullptr;
  Segment* before = nullptr;
  Segment* next = nullptr;
  std::size_t live = 0;  // pieces on loan
  bool small = false;    // holds small pieces alone
  bool paged = false;    // addresses for pages
};

/// A doubly linked list through `before` and `next`.
template <class Node>
class Linked {
 public:
  Node* head() const noexcept { return head_; }
  Node* tail() const noexcept { return tail_; }
  bool empty() const noexcept { return head_ == nullptr; }
  void push_back(Node* node) noexcept {
    node->before = tail_;
    node->next = nullptr;
    (tail_ != nullptr ? tail_->next : head_) = node;
    tail_ = node;
  }
  void push_front(Node* node) noexcept {
    node->before = nullptr;
    node->next = head_;
    (head_ != nullptr ? head_->before : tail_) = node;
    head_ = node;
  }
  void erase(Node* node) noexcept {
    (node->before != nullptr ? node->before->next : head_) = node->next;
    (node->next != nullptr ? node->next->before : tail_) = node->before;
    node->before = node->next = nullptr;
  }

 private:
  Node* head_ = nullptr;
  Node* tail_ = nullptr;
};

/// Nodes that are made in slabs and used again, so that a steady program does not call the heap.
template <class Node>
class NodeStore {
 public:
  /// Throws std::bad_alloc.
  Node* take() {
    if (spare_ == nullptr)
      grow();
    Node* node = spare_;
    spare_ = node->next;
    return node;
  }
  /// The next `count` calls of take() will not throw.
  void ensure(std::size_t count) {
    std::size_t have = 0;
    for (const Node* node = spare_; node != nullptr && have < count; node = node->next)
      ++have;
    for (; have < count; have += k_slab)
      grow();
  }
  /// What it holds stays as it is: who takes it sets it.
  void give(Node* node) noexcept {
    node->next = spare_;
    spare_ = node;
  }

 private:
  static constexpr std::size_t k_slab = 64;

  void grow() {
    slabs_.reserve(slabs_.size() + 1);
    slabs_.push_back(std::make_unique<Node[]>(k_slab));
    for (std::size_t i = k_slab; i-- > 0;) {
      slabs_.back()[i].next = spare_;
      spare_ = &slabs_.back()[i];
    }
  }

  std::vector<std::unique_ptr<Node[]>> slabs_;
  Node* spare_ = nullptr;
};

}  // namespace sluice::detail
