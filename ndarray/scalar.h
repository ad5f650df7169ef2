#pragma once

#include <concepts>
#include <cstdint>
#include <limits>

#include <sluice/engine/error.h>
#include <sluice/ndarray/dtype.h>

namespace sluice {

/// A number beside an array: bool, int64 or double. Weak: it takes the array's type, except that a double lifts an
/// integer array to float32, and an integer lifts a bool array to int64.
class Scalar {
  template <class T>
  static constexpr bool always_fits = !(std::unsigned_integral<T> && sizeof(T) >= sizeof(std::int64_t));

 public:
  enum class Kind : std::uint8_t { boolean, integer, real };

  /// Throws ValueError for an unsigned number of 2^63 or more: beside uint64 it stands as an array of its own.
  template <class T>
  requires std::integral<T> || std::floating_point<T> || std::same_as<T, Half> || std::same_as<T, BFloat16>
  constexpr Scalar(T value) noexcept(always_fits<T>) {  // NOLINT: converts by design
    if constexpr (std::same_as<T, bool>) {
      kind_ = Kind::boolean;
      integer_ = value;
    } else if constexpr (std::integral<T>) {
      if constexpr (!always_fits<T>) {
        if (value > static_cast<T>(std::numeric_limits<std::int64_t>::max()))
          throw ValueError(message("Scalar: ", value, " does not fit int64; a double beside an array may be as large"));
      }
      kind_ = Kind::integer;
      integer_ = static_cast<std::int64_t>(value);
    } else {
      kind_ = Kind::real;
      real_ = static_cast<double>(value);
    }
  }

  constexpr Kind kind() const noexcept { return kind_; }
  constexpr double as_double() const noexcept { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  constexpr std::int64_t as_int64() const noexcept {
    return kind_ == Kind::real ? static_cast<std::int64_t>(real_) : integer_;
  }

  /// The type that an array of `array` takes beside this scalar.
  constexpr DType beside(DType array) const noexcept {
    if (kind_ == Kind::real)
      return is_floating(array) ? array : DType::float32;
    if (kind_ == Kind::integer)
      return array == DType::bool_ ? DType::int64 : array;
    return array;
  }

 private:
  Kind kind_;
  union {
    std::int64_t integer_;
    double real_;
  };
};

}  // namespace sluice
