#pragma once

#include <functional>
#include <span>
#include <vector>

#include <sluice/ndarray/autograd.h>

namespace sluice::autograd {

/// A part of a program: arrays from arrays. It may read variables and other recorded arrays that it is not given.
using Segment = std::function<std::vector<NDArray>(std::span<const NDArray> inputs)>;

/// Runs `segment` and keeps its inputs alone; backward runs it again for what its gradients need (PyTorch's
/// torch.utils.checkpoint; Chen et al., "Training deep nets with sublinear memory cost", 2016). The gradients are the
/// segment's own, with the numbers that it drew the first time; those of an array that is read elsewhere too are added
/// up in another order. Gradients of gradients work. A segment must do the same both times, so running statistics of a
/// batch norm in it move twice. While it runs again the engine's random numbers stand elsewhere: no other thread should
/// draw some meanwhile. In programs that are traced it is recorded as it is: their plans compute again by a budget of
/// memory (PlanOptions::memory_budget). Throws what the segment throws, and AutogradError from backward where it gave
/// other results the second time.
SLUICE_API std::vector<NDArray> checkpoint(
    Segment segment, std::span<const NDArray> inputs, SourceLocation site = SourceLocation::current());
/// The same of one array.
SLUICE_API NDArray checkpoint(
    std::function<NDArray(const NDArray&)> segment,
    const NDArray& input,
    SourceLocation site = SourceLocation::current());

}  // namespace sluice::autograd
