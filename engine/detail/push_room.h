#pragma once

#include <sluice/engine/export.h>

namespace sluice::detail {

struct TaskNode;

/// What some pushes take of the heap, taken before: for those that must not fail because others were pushed. Their
/// names last, they name few Vars, and no region records them.
class SLUICE_API PushRoom {
 public:
  /// Throws std::bad_alloc.
  explicit PushRoom(int pushes);
  PushRoom(const PushRoom&) = delete;
  PushRoom& operator=(const PushRoom&) = delete;
  ~PushRoom() { open(); }

  /// What this thread pushes next finds it, unless it runs other tasks' bodies before. The destructor opens it, too.
  void open() noexcept;

 private:
  struct Block {
    Block* next;
  };
  void take(int pushes);

  TaskNode* nodes_ = nullptr;
  Block* small_ = nullptr;   // for closures and attributes
  Block* extras_ = nullptr;  // for what few tasks have beside
};

}  // namespace sluice::detail
