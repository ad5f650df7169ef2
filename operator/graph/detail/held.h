#pragma once

#include <sluice/ndarray/buffer.h>
#include <sluice/ndarray/detail/array_object.h>

namespace sluice::graph {

/// A constant of a graph, and the memory that it has: backward() may give a gradient other memory.
class Held {
 public:
  Held() = default;
  /// `array` outlives it.
  explicit Held(const NDArray& array)
      : array_(&array), buffer_(array.object()->buffer), keeps_address_(buffer_->var()) {}

  bool is_current() const noexcept { return array_->object()->buffer == buffer_; }
  /// As long as that is so.
  const sluice::detail::Buffer& buffer() const noexcept { return *buffer_; }

 private:
  const NDArray* array_ = nullptr;
  const sluice::detail::Buffer* buffer_ = nullptr;
  Var keeps_address_;  // other memory does not come to lie there, and does not pass for this
};

}  // namespace sluice::graph
