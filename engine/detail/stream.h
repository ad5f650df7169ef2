#pragma once

#include <array>
#include <memory>

#include <sluice/engine/queue.h>

namespace sluice::detail {

inline constexpr int k_max_slots = 64;

/// Throws ValueError for a number beyond the slots that there are.
void check_slot(int id);

/// What a Queue sees of a GPU stream; engine/cuda holds the one that works. A body that calls none of these has given
/// the GPU nothing to do. Each throws if what the task depends on cannot be put before it.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void* native() = 0;
  virtual Position current_position() = 0;
  virtual void wait_for(const PositionSet& positions) = 0;
  virtual ErrorWord* error_word() = 0;
  /// Library handles, each used only by the task that holds the stream.
  virtual std::shared_ptr<void>& slot(std::size_t id) = 0;
};

}  // namespace sluice::detail
