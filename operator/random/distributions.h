#pragma once

#include <cstdint>

#include <sluice/ndarray/create.h>
#include <sluice/ndarray/ndarray.h>

/// More distributions, and random orders. Every number is made of its own part of the stream (a Philox counter of its
/// own, whose further words count the tries of distributions that reject) by sums, products, quotients, roots and own
/// logarithms in float64, which are rounded once: the same bits on any number of threads, on every instruction set, on
/// CPU and GPU. Where nothing else is said, arrays are of floating types, and what is no distribution throws
/// ValueError, other types DTypeError. Nobody waits.
namespace sluice::random {

/// Exponential of that mean (numpy.random.exponential): scale >= 0.
SLUICE_API NDArray exponential(
    double scale,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Laplace (numpy.random.laplace): scale >= 0.
SLUICE_API NDArray laplace(
    double loc,
    double scale,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Gumbel, of largest values (numpy.random.gumbel): scale >= 0.
SLUICE_API NDArray gumbel(
    double loc,
    double scale,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// Normal, of those numbers alone that lie in [low, high], which may be infinite (torch.nn.init.trunc_normal_): std >
/// 0, low < high. By rejection (Robert, "Simulation of truncated normal variables", 1995).
SLUICE_API NDArray truncated_normal(
    double mean,
    double std,
    double low,
    double high,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// Gamma of shape parameter alpha > 0 times scale >= 0 (numpy.random.gamma), by Marsaglia and Tsang, "A simple method
/// for generating gamma variables", 2000.
SLUICE_API NDArray gamma(
    double alpha,
    double scale,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());
/// One number for each alpha (MXNet's sample_gamma), of scale 1, where they are; nan for an alpha that is not above 0.
SLUICE_API NDArray gamma(const NDArray& alpha, DType dtype = float32, SourceLocation site = SourceLocation::current());
/// Beta (numpy.random.beta), of two gammas: a and b at least 1e-300.
SLUICE_API NDArray beta(
    double a,
    double b,
    const Shape& shape,
    const ArrayOptions& options = {},
    SourceLocation site = SourceLocation::current());

/// Poisson of mean lam, 0 <= lam <= 2^52 (numpy.random.poisson): products of uniform numbers up to 10, beyond it PTRS
/// of Hoermann, "The transformed rejection method for generating Poisson random variables", 1993. Of integer types too,
/// where a number beyond the largest is that; bool is none.
SLUICE_API NDArray poisson(
    double lam,
    const Shape& shape,
    const ArrayOptions& options = {.dtype = int64},
    SourceLocation site = SourceLocation::current());
/// One number for each lam (MXNet's sample_poisson), where they are. For a lam that is none: nan, of integers -1, or 0
/// where they have no sign.
SLUICE_API NDArray poisson(const NDArray& lam, DType dtype = int64, SourceLocation site = SourceLocation::current());

/// Draws with replacement from 0 .. k-1 by weights of shape (.., k), which need not add up to 1: int64 of shape
/// (.., draws) (torch.multinomial, MXNet's sample_multinomial). A weight that is negative, infinite or nan counts as 0;
/// where none is left, -1 is drawn. Throws ShapeError for weights without an axis or of k = 0, DTypeError unless they
/// are of a floating type, ValueError for negative draws.
SLUICE_API NDArray
categorical(const NDArray& weights, std::int64_t draws = 1, SourceLocation site = SourceLocation::current());
/// How often each of k came up in n draws (numpy.random.multinomial): int64 of the weights' shape. As categorical(),
/// which it counts.
SLUICE_API NDArray multinomial(std::int64_t n, const NDArray& weights, SourceLocation site = SourceLocation::current());

/// 0 .. n-1 in random order: int64 on that device, the order of as many random keys of 64 bits. Throws ValueError for a
/// negative n, UnsupportedError for 2^32 and more.
SLUICE_API NDArray permutation(std::int64_t n, Device device = cpu(), SourceLocation site = SourceLocation::current());
/// x with the entries along its first axis in random order (numpy.random.permutation). Any type. Throws ShapeError for
/// an x without an axis.
SLUICE_API NDArray permutation(const NDArray& x, SourceLocation site = SourceLocation::current());
/// The same in place (numpy.random.shuffle, mx.random.shuffle).
SLUICE_API void shuffle(const NDArray& x, SourceLocation site = SourceLocation::current());
/// Draws from 0 .. n-1, int64 of that shape: with replacement, or each at most once, by equal chances
/// (numpy.random.choice). Throws ValueError for n < 1, unless nothing is drawn, and for more than n without
/// replacement.
SLUICE_API NDArray choice(
    std::int64_t n,
    const Shape& shape,
    bool replace = true,
    Device device = cpu(),
    SourceLocation site = SourceLocation::current());

/// The same by weights of shape (n,), which need not add up to 1 (numpy.random.choice with p, torch.multinomial): with
/// replacement categorical(); without it in the order in which one after the other is drawn, by the weights that are
/// left. A weight that is negative, infinite or nan, or less than 1e-300 of the largest, counts as 0; where none is
/// left -1 is drawn. Throws ShapeError and DTypeError for other weights.
SLUICE_API NDArray choice(
    const NDArray& weights, const Shape& shape, bool replace = true, SourceLocation site = SourceLocation::current());

}  // namespace sluice::random
