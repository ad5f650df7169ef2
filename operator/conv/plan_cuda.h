#pragma once

#include <cstdint>
#include <memory>

#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/library/cudnn_cuda.h>

namespace sluice::detail {

/// One pass as cuDNN is asked for it. Arrays lie in `order`, without gaps.
struct ConvolutionProblem {
  ConvolutionPass pass = ConvolutionPass::forward;
  ConvolutionGeometry geometry;
  MemoryOrder order = MemoryOrder::row_major;
  std::int64_t alignment = 16;  // bytes, of all arrays
  bool tf32 = false;
};

/// The names that arrays have in plans: x, weight, y.
inline constexpr std::int64_t k_convolution_ids[] = {'x', 'w', 'y'};

/// The plan of a pass on the queue's device, made when it is first asked for: from the current autotune(). Null inside
/// where cuDNN has none.
std::shared_ptr<const CudnnPlan> convolution_plan(const Queue& queue, const ConvolutionProblem& problem);

// What plans of convolutions with something behind them are made of too.

/// An array of the problem: 4 axes, in its order.
CudnnDescriptor convolution_array(const ConvolutionProblem& problem, std::int64_t id, const Shape& shape);
/// Its strides.
Shape convolution_strides(const ConvolutionProblem& problem, const Shape& shape);
/// The operation of the problem's pass between arrays of these names; finalize it.
CudnnDescriptor convolution_operation(
    const ConvolutionProblem& problem,
    const CudnnDescriptor& how,
    const CudnnDescriptor& x,
    const CudnnDescriptor& weight,
    const CudnnDescriptor& y);
CudnnDescriptor convolution_how(const ConvolutionGeometry& g);
CudnnLimits convolution_limits(const ConvolutionProblem& problem);
void add_numbers(const ConvolutionProblem& problem, CacheKey& key);

}  // namespace sluice::detail
