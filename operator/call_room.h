#pragma once

#include <memory>

#include <sluice/engine/export.h>

namespace sluice::detail {

/// What some calls of operators take of the heap, taken before: for those that must not fail because others were made,
/// as what counts a step that was. They write where told to, in place, arrays that lie row by row; no sink takes them.
class SLUICE_API CallRoom {
 public:
  /// Throws std::bad_alloc.
  explicit CallRoom(int calls);
  CallRoom(const CallRoom&) = delete;
  CallRoom& operator=(const CallRoom&) = delete;
  ~CallRoom();

  /// To be called right before them, on the thread that made it.
  void open() noexcept;

 private:
  struct Held;
  std::unique_ptr<Held> held_;
};

}  // namespace sluice::detail
