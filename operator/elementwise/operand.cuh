#pragma once

// What elementwise kernels read.
#include <cstdint>

#include <sluice/ndarray/strided.cuh>
#include <sluice/operator/elementwise/math.h>

namespace sluice::detail {

/// What an operand's elements are: a number, one element for all of a vector, each its own, or a Cycle's (pieces.h).
enum class ReadMode : std::uint8_t { constant, repeated, each, cycle };

/// One operand that a kernel reads.
template <class T>
struct ReadOperand {
  const T* data = nullptr;
  math::Compute<T> constant{};
  ReadMode mode = ReadMode::constant;
  std::int32_t stride = 1;  // of a cycle
  Divider<std::int32_t> repeats = {}, count = {};
};

/// U elements of a thread.
template <class C, int U>
struct Several {
  C at[U];
};

/// As they are computed with. What was read of a constant is not looked at.
template <int U, class T>
__device__ Several<math::Compute<T>, U> computed(const ReadOperand<T>& operand, const Several<T, U>& raw) {
  Several<math::Compute<T>, U> values;
#pragma unroll
  for (int j = 0; j < U; ++j)
    values.at[j] = operand.mode == ReadMode::constant ? operand.constant : static_cast<math::Compute<T>>(raw.at[j]);
  return values;
}

template <class F, class Out, int U, class... C>
__device__ Several<Out, U> applied(const Several<C, U>&... values) {
  Several<Out, U> made;
#pragma unroll
  for (int j = 0; j < U; ++j)
    made.at[j] = static_cast<Out>(F::of(values.at[j]...));
  return made;
}

}  // namespace sluice::detail
