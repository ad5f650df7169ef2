#pragma once

// One elementwise run, as both the CPU loops and the CUDA kernels take it.
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <sluice/ndarray/dtype.h>
#include <sluice/ndarray/iterate.h>

namespace sluice::detail {

/// K operands over one shape; operand 0 is written, the others are read. An operand may be a constant in place of an
/// array: a value of the operand's compute type (math::Compute), held as bits.
template <int K>
struct PointwiseArgs {
  StridedPlan<K> plan;
  std::array<std::byte*, K> data{};
  std::array<DType, K> dtypes{};
  std::array<bool, K> is_constant{};
  std::array<std::uint64_t, K> constants{};

  template <class T>
  T constant(int operand) const noexcept {
    T value;
    std::memcpy(&value, &constants[operand], sizeof(T));
    return value;
  }
};

/// Enqueues one elementwise run on `stream`, a cudaStream_t. Not called for zero elements.
template <int K>
using PointwiseLaunch = void (*)(const PointwiseArgs<K>& args, void* stream);

/// y[i] = f(x0[i], x1[i], ...) over `n` neighbours; operands are of their compute types. `out` may be one of the
/// inputs, unless it is to `stream`, that is to go past the caches, where the loop can: it then begins a line of 64
/// bytes.
using PointwiseLoop = void (*)(void* out, const void* const* in, std::int64_t n, bool stream);

/// T, to be written once for each of N operands of one type.
template <class T, std::size_t>
using Each = T;

}  // namespace sluice::detail
