#pragma once

#include <functional>
#include <span>
#include <vector>

#include <sluice/ndarray/autograd.h>

namespace sluice::autograd {

/// A part of a program: arrays from arrays. It may read variables and other recorded arrays that it is not given.
using Segment = std::function<std::vector<NDArray>(std::span<const NDArray> inputs)>;

/// Runs `segment` and keeps its inputs alone; backward runs it again for what its gradients need (PyTorch's
/// torch.utils.checkpoint; Chen et al., 2016, arXiv:1604.06174). The gradients are the segment's own, with the numbers
/// that it drew the first time; those of an array that is read elsewhere too are added up in another order. A segment
/// must do the same both times: running statistics in it move twice, hooks that it adds to arrays from outside are
/// added twice, and layers are to have their shapes. While it runs again the engine's random numbers stand elsewhere:
/// no other thread should draw some then. In programs that are traced it is recorded as it is: plans compute again by a
/// budget of memory (PlanOptions::memory_budget). Throws what the segment throws, and AutogradError from backward where
/// it gave other results the second time, or its inputs were written, by itself or later.
SLUICE_API std::vector<NDArray> checkpoint(
    Segment segment, std::span<const NDArray> inputs, SourceLocation site = SourceLocation::current());
/// The same of one array.
SLUICE_API NDArray checkpoint(
    std::function<NDArray(const NDArray&)> segment,
    const NDArray& input,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice::autograd
