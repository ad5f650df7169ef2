#pragma once

#include <cstdint>

#include <sluice/ndarray/dtype.h>
#include <sluice/operator/workspace.h>

namespace sluice::detail {

/// Scratch memory for n float32 numbers: those at `values`, of a floating type and neighbours, or anything where that
/// is null. For libraries that do not take half types.
class Widened {
 public:
  Widened(const Queue& queue, DType from, const void* values, std::int64_t n);
  /// Null of no numbers.
  float* data() const noexcept { return floats_.as<float>(); }

 private:
  Workspace floats_;
};

/// n floats, rounded once, to neighbours of a floating type; on the calling thread and idle workers.
void narrow(const float* values, DType to, void* target, std::int64_t n);

}  // namespace sluice::detail
