#pragma once

#include <cstdint>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/ndarray.h>

/// Random arrays. Each number is a function of its index in the array and of a block of Philox4x32-10 counters that
/// the engine hands out at push, so a seed gives the same numbers on any number of threads, on every instruction set,
/// on CPU and GPU alike; but for normal(), whose logarithms, sines and cosines are a library's or the vectors' own and
/// may differ in the last bits from one instruction set or device to another. More: operator/random/distributions.h.
namespace sluice::random {

/// Restarts the numbers of the current engine (mx.random.seed).
SLUICE_API void seed(std::uint64_t value);

/// Uniform in [low, high). Floating types. Throws ValueError unless low <= high and both are finite, DTypeError.
SLUICE_API NDArray uniform(
    double low,
    double high,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Uniform in [0, 1).
SLUICE_API NDArray
uniform(const Shape& shape, const ArrayOptions& options = {}, SourceLocation site = SourceLocation::current());
/// Normal by the method of Box and Muller. Floating types. Throws ValueError unless std >= 0, DTypeError.
SLUICE_API NDArray normal(
    double mean,
    double std,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Normal of mean 0 and standard deviation 1.
SLUICE_API NDArray
normal(const Shape& shape, const ArrayOptions& options = {}, SourceLocation site = SourceLocation::current());
/// Integers uniform in [low, high) (64 random bits modulo the range). Integer types; throws ValueError unless
/// low < high and both fit the type.
SLUICE_API NDArray randint(
    std::int64_t low,
    std::int64_t high,
    const Shape& shape,
    const ArrayOptions& options = {.dtype = int64},
    SourceLocation site = SourceLocation::current());
/// 1 with probability p, else 0. Any type.
SLUICE_API NDArray bernoulli(
    double p, const Shape& shape, const ArrayOptions& options = {}, SourceLocation site = SourceLocation::current());

}  // namespace sluice::random
