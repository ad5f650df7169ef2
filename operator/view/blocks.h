#pragma once

#include <cstdint>

#include <sluice/ndarray/ndarray.h>

// Squares of pixels against channels, for x (N, C, H, W). The orders of channels differ: MXNet's counts the place in
// the square first and the channel last (ONNX's mode DCR), PyTorch's the channel first (CRD). Elements are moved, not
// computed with: any type. They throw ShapeError for other shapes and for extents that do not divide evenly, ValueError
// for a block size below 1. None of them blocks.
namespace sluice {

/// Squares of `block_size` x `block_size` pixels become channels: (N, C block_size^2, H / block_size, W / block_size),
/// channel (row * block_size + column) * C + c (MXNet space_to_depth, ONNX SpaceToDepth).
SLUICE_API NDArray
space_to_depth(const NDArray& x, std::int64_t block_size, SourceLocation site = SourceLocation::current());
/// Undoes space_to_depth(): (N, C / block_size^2, H block_size, W block_size) (MXNet depth_to_space, ONNX
/// DepthToSpace).
SLUICE_API NDArray
depth_to_space(const NDArray& x, std::int64_t block_size, SourceLocation site = SourceLocation::current());

/// space_to_depth() in PyTorch's order (pixel_unshuffle): channel (c * block_size + row) * block_size + column.
SLUICE_API NDArray
pixel_unshuffle(const NDArray& x, std::int64_t block_size, SourceLocation site = SourceLocation::current());
/// Undoes pixel_unshuffle() (PyTorch pixel_shuffle, ONNX DepthToSpace of mode CRD).
SLUICE_API NDArray
pixel_shuffle(const NDArray& x, std::int64_t block_size, SourceLocation site = SourceLocation::current());

}  // namespace sluice
