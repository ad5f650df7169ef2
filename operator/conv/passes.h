#pragma once

// What operators of convolutions and their gradients call.
#include <sluice/operator/conv/composed.h>
#include <sluice/operator/conv/geometry.h>
#include <sluice/operator/invoke.h>

namespace sluice::detail {

/// Gradients of weight and bias from x, dy, the result of relu and the weight (shape alone), with relu's mask.
extern const Operator convolution_relu_backward_weights_op;

/// Throws DTypeError for what is not floating, and for operands of different types.
void check_convolution_types(const char* op, std::span<const ArraySpec> inputs);
/// Throws ShapeError unless dy is of the result's shape.
void check_convolution_result(const char* op, const ConvolutionGeometry& g, const Shape& dy);

/// Of the result of deconvolution(), checked as that does. Inputs x, weight.
Shape deconvolution_shape(const Operator& op, std::span<const ArraySpec> inputs, const DeconvolutionOptions& o);

/// The passes as operators; `bias` may be undefined.
NDArray convolution_forward(
    const NDArray& x, const NDArray& weight, const NDArray& bias, const ConvolutionAttributes& how);
NDArray convolution_backward_data(
    const NDArray& dy, const NDArray& weight, ConvolutionAttributes how, const ArraySpec& x);
Arrays convolution_backward_weights(
    const NDArray& x, const NDArray& dy, ConvolutionAttributes how, const ArraySpec& weight, bool bias);

/// The gradient of convolution_relu.
Arrays convolution_relu_gradient(const GradientCall& call);

}  // namespace sluice::detail
