#pragma once

#include <chrono>
#include <cstdint>

#include <sluice/engine/device.h>
#include <sluice/engine/position.h>

namespace sluice::detail {

/// What a pool asks of the engine: how far GPU streams have come, and help when memory runs out.
class Passage {
 public:
  virtual ~Passage() = default;
  /// A hint that never asks the driver.
  virtual bool passed(const PositionSet& positions) const noexcept = 0;
  bool passed(Position position) const noexcept {
    PositionSet one;
    one.add(position);
    return passed(one);
  }
  /// True for a stream that copies between memories.
  virtual bool copies(Position) const noexcept { return false; }
  /// Blocks until the GPU has passed `positions`.
  virtual void wait_passed(const PositionSet& positions) = 0;
  /// Waits a little for a task to finish, if any are under way. True if one did, which may have held memory.
  virtual bool await_task() { return false; }
  /// Tasks under way.
  virtual std::uint64_t live_tasks() const { return 0; }
  /// How long a pool waits at most beyond as many tasks as are under way: others may go on without end, and free
  /// nothing.
  virtual std::chrono::nanoseconds longest_wait() const { return std::chrono::seconds(10); }
  /// Asks everybody to give cached memory of `device` back.
  virtual void relieve(Device device) = 0;
};

}  // namespace sluice::detail
