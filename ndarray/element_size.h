#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::detail {

/// Calls f.operator()<U>() with an unsigned type as wide as an element: for kernels that only move elements.
template <class F>
decltype(auto) by_element_size(std::size_t bytes, F&& f) {
  switch (bytes) {
    case 1:
      return f.template operator()<std::uint8_t>();
    case 2:
      return f.template operator()<std::uint16_t>();
    case 4:
      return f.template operator()<std::uint32_t>();
    default:
      return f.template operator()<std::uint64_t>();
  }
}

}  // namespace sluice::detail
