#pragma once

#include <string_view>

#include <sluice/engine/export.h>

namespace sluice {

/// How matrix products and convolutions of float32 arrays treat their inputs on a GPU.
enum class Float32Precision : unsigned char {
  highest,  // all 24 bits of significand
  high,     // TF32: tensor cores that see 11 bits of significand, sums in float32; small products stay exact
};

/// "highest" (the default) or "high", for the whole process and every operation that starts after this call, those
/// still waiting in an engine included. Throws ValueError for another name.
/// Source: torch.set_float32_matmul_precision.
SLUICE_API void set_float32_precision(std::string_view name);
SLUICE_API std::string_view float32_precision() noexcept;

namespace detail {
SLUICE_API Float32Precision current_float32_precision() noexcept;
}  // namespace detail

}  // namespace sluice
