#pragma once

#include <array>
#include <cstddef>
#include <new>
#include <span>

#include <sluice/ndarray/ndarray.h>

namespace sluice::detail {

/// Handles in a row, as invoke() takes its inputs, that are not counted: the caller's own live as long as the call.
template <std::size_t N>
class Borrowed {
 public:
  explicit Borrowed(const std::array<const NDArray*, N>& from) noexcept {
    for (std::size_t i = 0; i < N; ++i)
      ::new (static_cast<void*>(&handles_[i])) NDArray(from[i]->object());
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;
  ~Borrowed() {}  // NOLINT: gives back nothing

  std::span<const NDArray> arrays() const noexcept { return {handles_, N}; }

 private:
  union {
    NDArray handles_[N];
  };
};

}  // namespace sluice::detail
