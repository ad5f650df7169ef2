#include <algorithm>
#include <type_traits>

#include <sluice/ndarray/element_size.h>
#include <sluice/operator/elementwise/elements.h>
#include <sluice/operator/elementwise/short_rows.h>

namespace sluice::detail {

namespace {

// Calls body(length) with a length that the compiler knows where it is one of the shortest.
template <class Body>
void with_length(std::int64_t length, const Body& body) {
  switch (length) {
    case 2:
      return body(std::integral_constant<std::int64_t, 2>());
    case 3:
      return body(std::integral_constant<std::int64_t, 3>());
    case 4:
      return body(std::integral_constant<std::int64_t, 4>());
    default:
      return body(length);
  }
}

template <class U>
void gather_bits(const U* from, const ShortRows& rows, U* to) {
  with_length(rows.length, [&](const auto length) {
    for (std::int64_t row = 0; row < rows.count; ++row) {
      const U* const source = from + row * rows.row_step;
      U* const target = to + row * length;
      if (rows.step == 0) {
        std::fill_n(target, std::int64_t{length}, *source);
      } else if (rows.step == 1) {
        std::copy_n(source, std::int64_t{length}, target);
      } else {
        for (std::int64_t i = 0; i < length; ++i)
          target[i] = source[i * rows.step];
      }
    }
  });
}

template <class U>
void scatter_bits(const U* from, U* to, const ShortRows& rows) {
  with_length(rows.length, [&](const auto length) {
    for (std::int64_t row = 0; row < rows.count; ++row) {
      for (std::int64_t i = 0; i < length; ++i)
        to[row * rows.row_step + i * rows.step] = from[row * length + i];
    }
  });
}

}  // namespace

void gather_rows(DType dtype, const std::byte* from, const ShortRows& rows, void* to) {
  if (is_half(dtype)) {
    std::uint16_t bits[k_most_short];
    gather_bits(reinterpret_cast<const std::uint16_t*>(from), rows, bits);
    return gather(dtype, reinterpret_cast<const std::byte*>(bits), 1, to, rows.size());
  }
  by_element_size(
      size_of(dtype), [&]<class U>() { gather_bits(reinterpret_cast<const U*>(from), rows, static_cast<U*>(to)); });
}

void scatter_rows(DType dtype, const void* from, std::byte* to, const ShortRows& rows) {
  if (is_half(dtype)) {
    std::uint16_t bits[k_most_short];
    scatter(dtype, from, reinterpret_cast<std::byte*>(bits), 1, rows.size());
    return scatter_bits(bits, reinterpret_cast<std::uint16_t*>(to), rows);
  }
  by_element_size(
      size_of(dtype), [&]<class U>() { scatter_bits(static_cast<const U*>(from), reinterpret_cast<U*>(to), rows); });
}

}  // namespace sluice::detail
