#pragma once

#include <optional>

#include <sluice/ndarray/ndarray.h>

// New arrays of the engine, device and type of another one, of a shape of their own (PyTorch Tensor.new_zeros and its
// kin); of the same shape too they are zeros_like() and its kin (ndarray/create.h). The other one's numbers are not
// looked at, and no gradient goes there. They throw ShapeError for a negative extent, OutOfMemory. None of them blocks.
namespace sluice {

/// Every element `value`. Throws ValueError for a number that an integer type does not hold.
SLUICE_API NDArray new_full(
    const NDArray& beside,
    const Shape& shape,
    Scalar value,
    std::optional<DType> dtype = {},
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray new_zeros(
    const NDArray& beside,
    const Shape& shape,
    std::optional<DType> dtype = {},
    SourceLocation site = SourceLocation::current());
SLUICE_API NDArray new_ones(
    const NDArray& beside,
    const Shape& shape,
    std::optional<DType> dtype = {},
    SourceLocation site = SourceLocation::current());
/// Elements are not set.
SLUICE_API NDArray new_empty(
    const NDArray& beside,
    const Shape& shape,
    std::optional<DType> dtype = {},
    SourceLocation site = SourceLocation::current());

}  // namespace sluice
