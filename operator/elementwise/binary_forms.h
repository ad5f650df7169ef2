#pragma once

// The operators that a row of binary.def stands for.
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>

namespace sluice::detail {

/// Where the number stands, if there is one.
enum class BinaryForm : std::uint8_t { arrays, right_scalar, left_scalar };

// -- Backward: da or db from dy, a, b, y; what the formula does not read is given as dy and never loaded. Attributes,
// -- if any, hold the other operand, which is a number.

template <Binary row, int operand>
struct BinaryBackward {
  using Row = math::BinaryRow<row>;
  static constexpr const char* name = operand == 0 ? Row::backward_a_name : Row::backward_b_name;

  static Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) { return {inputs[0]}; }
  static std::array<PointwiseOperand, 4> operands(const KernelCall& call) {
    std::array<PointwiseOperand, 4> all{call.inputs[0], call.inputs[1], call.inputs[2], call.inputs[3]};
    if (!call.attributes.empty())
      all[operand == 0 ? 2 : 1] = call.attributes.as<NumberAttribute>().number;
    return all;
  }
  static void cpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    run_on_cpu<5>(name, call.outputs[0], operands(call), binary_gradient_loop(row, operand, dtype), dtype);
  }
#if SLUICE_CUDA
  static void gpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    const auto args = pointwise_args<5>(name, call.outputs[0], operands(call), dtype);
    run_on_gpu(name, args, binary_gradient_launch(row, operand, dtype), dtype, call.queue);
  }
#endif
  static constexpr Operator op{
      .name = name,
      .inputs = 4,
      .attributes = &attribute_type<NumberAttribute>,
      .optional_attributes = true,
      .infer = infer,
      .cpu = cpu,
      .gpu = SLUICE_GPU_KERNEL(gpu),
      .strided_inputs = k_all,
      .strided_outputs = true,
      .elementwise = true,
  };
};

template <Binary row>
struct BinaryForms {
  using Row = math::BinaryRow<row>;
  static constexpr bool differentiable = !gives_bool(Row::kind);
  // A gradient of dy alone is written with arrays; others have a fused kernel.
  static constexpr bool fused_a = differentiable && Row::uses_a != nothing_;
  static constexpr bool fused_b = differentiable && Row::uses_b != nothing_;

  // -- Gradient -------------------------------------------------------------------------------------------------
  struct Saved {
    NDArray dy, a, b, y;
  };

  template <int operand>
  static NDArray operand_gradient(const Saved& saved, const Attributes& attributes, const Shape& shape) {
    using Formula = std::conditional_t<operand == 0, typename Row::GradientA, typename Row::GradientB>;
    if constexpr (operand == 0 ? fused_a : fused_b) {
      if (!autograd::is_recording()) {
        const NDArray inputs[] = {
            saved.dy,
            saved.a.defined() ? saved.a : saved.dy,
            saved.b.defined() ? saved.b : saved.dy,
            saved.y.defined() ? saved.y : saved.dy};
        const auto site = SourceLocation::current();
        return sum_to_shape(invoke(BinaryBackward<row, operand>::op, inputs, attributes, site)[0], shape, site);
      }
      const NDArray wide =
          Formula::template of<NDArray>(widened(saved.dy), widened(saved.a), widened(saved.b), widened(saved.y));
      return sum_to_shape(wide.astype(saved.dy.dtype()), shape);
    } else {
      return sum_to_shape(Formula::template of<NDArray>(saved.dy, saved.a, saved.b, saved.y), shape);
    }
  }

  template <BinaryForm form>
  static Arrays gradient(const GradientCall& call) {
    Arrays grads(call.inputs.size());
    Saved saved{call.output_grads[0], {}, {}, call.outputs[0]};
    if (!saved.dy.defined())
      return grads;
    if constexpr (form == BinaryForm::arrays) {
      saved.a = call.inputs[0];
      saved.b = call.inputs[1];
      if (call.wanted[0])
        grads[0] = operand_gradient<0>(saved, {}, call.input_specs[0].shape);
      if (call.wanted[1])
        grads[1] = operand_gradient<1>(saved, {}, call.input_specs[1].shape);
    } else {
      constexpr int operand = form == BinaryForm::right_scalar ? 0 : 1;
      (operand == 0 ? saved.a : saved.b) = call.inputs[0];
      if (autograd::is_recording()) {
        const Scalar number = call.attributes.as<NumberAttribute>().number;
        (operand == 0 ? saved.b : saved.a) =
            full({}, number, {.dtype = saved.dy.dtype() == float64 ? float64 : float32, .device = saved.dy.device()});
      }
      grads[0] = operand_gradient<operand>(saved, call.attributes, call.input_specs[0].shape);
    }
    return grads;
  }

  template <BinaryForm form>
  static constexpr Gradient gradient_of() {
    if constexpr (differentiable) {
      return gradient<form>;
    } else {
      return nullptr;
    }
  }

  // What the gradients of the wanted operands read.
  static Mask saved_for(Mask wanted, const Attributes&) {
    const Uses uses = ((wanted & 1) != 0 ? Row::uses_a : nothing_) | ((wanted & 2) != 0 ? Row::uses_b : nothing_);
    return uses & (a_ | b_);
  }

  // -- Forward --------------------------------------------------------------------------------------------------
  template <BinaryForm form>
  static constexpr const char* name() {
    return form == BinaryForm::arrays         ? Row::name
           : form == BinaryForm::right_scalar ? Row::right_scalar_name
                                              : Row::left_scalar_name;
  }
  // A number beside an array takes the array's type; see operand_type_beside().
  template <BinaryForm form>
  static bool normalise(const RawCall& call, NormalCall& normal) {
    const DType first = call.inputs[0].dtype();
    if constexpr (form == BinaryForm::arrays) {
      return cast_inputs(call, operand_type(Row::kind, promote(first, call.inputs[1].dtype())), normal);
    } else {
      const Scalar number = call.attributes.as<NumberAttribute>().number;
      return cast_inputs(call, operand_type_beside(Row::name, Row::kind, first, number), normal);
    }
  }
  static Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
    return infer_elementwise(Row::name, Row::kind, inputs);
  }
  template <BinaryForm form>
  static std::array<PointwiseOperand, 2> operands(const KernelCall& call) {
    if constexpr (form == BinaryForm::arrays) {
      return {call.inputs[0], call.inputs[1]};
    } else {
      const Scalar number = call.attributes.as<NumberAttribute>().number;
      if constexpr (form == BinaryForm::right_scalar) {
        return {call.inputs[0], number};
      } else {
        return {number, call.inputs[0]};
      }
    }
  }
  template <BinaryForm form>
  static void cpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    run_on_cpu<3>(Row::name, call.outputs[0], operands<form>(call), binary_loop(row, dtype), dtype);
  }
#if SLUICE_CUDA
  template <BinaryForm form>
  static void gpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    const auto args = pointwise_args<3>(Row::name, call.outputs[0], operands<form>(call), dtype);
    run_on_gpu(Row::name, args, binary_launch(row, dtype), dtype, call.queue);
  }
#endif

  template <BinaryForm form>
  static constexpr Operator make() {
    constexpr bool arrays = form == BinaryForm::arrays;
    constexpr Uses uses = arrays                             ? Row::uses_a | Row::uses_b
                          : form == BinaryForm::right_scalar ? Row::uses_a
                                                             : Row::uses_b;
    constexpr Uses own = form == BinaryForm::left_scalar ? b_ : a_;  // which operand is input 0 beside a number
    return {
        .name = name<form>(),
        .inputs = arrays ? 2 : 1,
        .attributes = arrays ? &attribute_type<NoAttributes> : &attribute_type<NumberAttribute>,
        .normalise = normalise<form>,
        .infer = infer,
        .cpu = cpu<form>,
        .gpu = SLUICE_GPU_KERNEL(gpu<form>),
        .gradient = gradient_of<form>(),
        .saved_inputs = arrays ? Mask{uses & (a_ | b_)} : Mask{(uses & own) != 0 ? 1u : 0u},
        .saved_outputs = (uses & y_) != 0 ? Mask{1} : k_none,
        .strided_inputs = k_all,
        .strided_outputs = true,
        .elementwise = true,
        .saved_for = arrays ? saved_for : nullptr,
    };
  }
  static constexpr Operator arrays = make<BinaryForm::arrays>();
  static constexpr Operator right_scalar = make<BinaryForm::right_scalar>();
  static constexpr Operator left_scalar = make<BinaryForm::left_scalar>();
};

}  // namespace sluice::detail
