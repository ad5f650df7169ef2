#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include <sluice/operator/elementwise/pieces.h>
#include <sluice/operator/elementwise/pointwise.h>
#include <sluice/operator/fused/source.h>
#include <sluice/operator/operator.h>

// From a call of a fused program to the launches of its kernels, without CUDA.
namespace sluice::fused {

/// Results and inputs of a program that runs as one kernel, at most.
inline constexpr int k_operands = 16;
using Args = sluice::detail::PointwiseArgs<k_operands>;

/// Which kernel of source.h, and its first argument.
enum class Walk : std::uint8_t { flat, vectors, streams };

struct Layout {
  Walk walk = Walk::flat;
  std::int64_t threads = 0;  // that have work
  /// Layout<K> of detail/kernels.h, word by word.
  std::array<std::uint32_t, 5 + 3 * k_max_ndim + (1 + k_max_ndim) * k_operands> words{};
};

/// How the operands lie, results first; results are all of one shape, inputs are stretched to it. Operands beyond those
/// of the call count as numbers. Throws ShapeError for inputs that do not fit.
Args args_of(const char* op, std::span<const TensorView> results, std::span<const TensorView> inputs);

/// Whether the kernels had better be given operand `k` as a copy: it has its neighbours along another axis than what is
/// written, and there are enough of them.
bool is_turned(const Args& args, int k) noexcept;

/// The same for the terms of a reduction: `made` without memory, row by row, comes first, as if it were written; what
/// it is made of follows.
struct TermsLayout {
  bool together = false;  // all have V neighbours at once where the terms are read so
  Layout layout = {};     // of the inputs
};
/// Of `args` that fit 32 bits; `vector`: V.
TermsLayout terms_layout_of(const Args& args, int inputs, int vector);

/// The launch of `args`, which fit 32 bits: by vectors where all operands allow it, by streams otherwise.
Layout layout_of(const Args& args, const KernelSource& source);

/// Multiplier and shift of Divider in detail/kernels.h.
struct Division {
  std::uint32_t divisor, multiplier, shift;
};
Division division_by(std::int64_t divisor) noexcept;

}  // namespace sluice::fused
