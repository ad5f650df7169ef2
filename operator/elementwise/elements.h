#pragma once

#include <cstddef>
#include <cstdint>

#include <sluice/operator/half_types.h>

// Elements of any type and distance as neighbours of their compute type (math::Compute), and back.
namespace sluice::detail {

/// n elements of type `dtype`, `step` apart, become neighbours of the compute type.
void gather(DType dtype, const std::byte* from, std::int64_t step, void* to, std::int64_t n);
/// Neighbours of the compute type become elements of type `dtype`, `step` apart.
void scatter(DType dtype, const void* from, std::byte* to, std::int64_t step, std::int64_t n);
/// n times the number whose bits in the compute type these are.
void fill_constant(DType dtype, std::uint64_t bits, void* to, std::int64_t n);

}  // namespace sluice::detail
