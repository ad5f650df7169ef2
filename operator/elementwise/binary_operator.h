#pragma once

// The operators that a row of binary.def stands for: the row itself, of two arrays or of an array and a number, and the
// gradients of its operands.
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/row_loops.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/half_types.h>
#include <sluice/operator/normalise.h>

namespace sluice::detail {

// -- Backward: da or db from dy, a, b, y; what the formula does not read is given as dy and never loaded. Attributes,
// -- if any, hold the other operand, which is a number.

template <Binary row, int operand>
struct BinaryBackward {
  using Row = math::BinaryRow<row>;
  static constexpr const char* name = operand == 0 ? Row::backward_a_name : Row::backward_b_name;

  static Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
    return infer_backward(name, inputs);
  }
  static bool alike(std::size_t inputs, const Attributes&, DType& dtype) { return inputs == 4 && is_floating(dtype); }
  template <class Call>
  static std::array<PointwiseOperand, 4> operands(const Call& call) {
    std::array<PointwiseOperand, 4> all{call.inputs[0], call.inputs[1], call.inputs[2], call.inputs[3]};
    if (const NumberAttribute* const beside = number_of(call.attributes))
      all[beside->first ? 1 : 2] = beside->number;
    return all;
  }
  static RowLoop loop_of(const RowInputs& call) {
    const DType dtype = call.inputs[0].dtype;
    return row_loop(binary_backward_loop(row, operand, dtype), operands(call), dtype);
  }
  static void cpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    run_on_cpu<5>(name, call.outputs[0], operands(call), binary_backward_loop(row, operand, dtype), dtype);
  }
#if SLUICE_CUDA
  static void gpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    const auto args = pointwise_args<5>(name, call.outputs[0], operands(call), dtype);
    run_on_gpu(name, args, binary_backward_launch(row, operand, dtype), dtype, call.queue);
  }
#endif
  static constexpr Operator op{
      .name = name,
      .inputs = 4,
      .attributes = &attribute_type<NumberAttribute>,
      .optional_attributes = true,
      .infer = infer,
      .alike = alike,
      .kernels = {on_cpu(cpu), on_gpu(SLUICE_GPU_KERNEL(gpu))},
      .strided_inputs = k_all,
      .strided_outputs = true,
      .elementwise = true,
  };
};

template <Binary row>
struct BinaryOperator {
  using Row = math::BinaryRow<row>;
  static constexpr bool differentiable = is_differentiable(Row::kind);
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

  static Arrays gradient(const GradientCall& call) {
    Arrays grads(call.inputs.size());
    Saved saved{call.output_grads[0], call.inputs[0], call.inputs.back(), call.outputs[0]};
    if (!saved.dy.defined())
      return grads;
    const NumberAttribute* const beside = number_of(call.attributes);
    const bool only_b = beside != nullptr && beside->first;
    if (beside != nullptr) {
      NDArray number;  // read by formulas for arrays; kernels take it from the attributes
      if (autograd::is_recording()) {
        const DType dtype = wide_type(saved.dy.dtype());
        number = full({}, beside->number, {.dtype = dtype, .device = saved.dy.device()});
      }
      (only_b ? saved.a : saved.b) = number;
    }
    if (call.wanted[0] && !only_b)
      grads[0] = operand_gradient<0>(saved, call.attributes, call.input_specs[0].shape);
    if (call.wanted.back() && (only_b || beside == nullptr))
      grads.back() = operand_gradient<1>(saved, call.attributes, call.input_specs.back().shape);
    return grads;
  }

  static constexpr Gradient gradient_or_none() {
    if constexpr (differentiable) {
      return gradient;
    } else {
      return nullptr;
    }
  }

  // What the gradients of the wanted inputs read.
  static Uses uses_for(Mask wanted, const Attributes& attributes) {
    if (const NumberAttribute* const beside = number_of(attributes))
      return beside->first ? Row::uses_b : Row::uses_a;
    return ((wanted & 1) != 0 ? Row::uses_a : nothing_) | ((wanted & 2) != 0 ? Row::uses_b : nothing_);
  }
  static Mask saved_for(Mask wanted, const Attributes& attributes) {
    const Uses uses = uses_for(wanted, attributes) & (a_ | b_);
    const NumberAttribute* const beside = number_of(attributes);
    if (beside == nullptr)
      return uses;
    return (uses & (beside->first ? b_ : a_)) != 0 ? 1 : 0;
  }
  static Mask saved_outputs_for(Mask wanted, const Attributes& attributes) {
    return (uses_for(wanted, attributes) & y_) != 0 ? 1 : 0;
  }

  // -- Forward --------------------------------------------------------------------------------------------------
  // A number beside an array takes the array's type; see operand_type_beside().
  static bool normalise(const RawCall& call, NormalCall& normal) {
    if (call.attributes.empty() && call.inputs.size() == 2) [[likely]] {
      const DType dtype = promote(call.inputs[0].dtype(), call.inputs[1].dtype());
      return cast_inputs(call, operand_type(Row::kind, dtype), normal);
    }
    const NumberAttribute* const beside = number_of(call.attributes);
    check_operands(Row::name, call.inputs.size(), 2, beside);
    const DType first = call.inputs[0].dtype();
    if (beside == nullptr)
      return cast_inputs(call, operand_type(Row::kind, promote(first, call.inputs[1].dtype())), normal);
    return cast_inputs(call, operand_type_beside(Row::name, Row::kind, first, beside->number), normal);
  }
  static Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
    check_operands(Row::name, inputs.size(), 2, number_of(attributes));
    return infer_elementwise(Row::name, Row::kind, inputs);
  }
  static bool alike(std::size_t inputs, const Attributes& attributes, DType& dtype) {
    const NumberAttribute* const beside = number_of(attributes);
    if (inputs != (beside == nullptr ? 2 : 1)) [[unlikely]]
      return false;
    const DType operand = beside == nullptr ? dtype : operand_type_beside(Row::name, Row::kind, dtype, beside->number);
    return alike_elementwise(Row::kind, operand, dtype);
  }
  template <class Call>
  static std::array<PointwiseOperand, 2> operands(const Call& call) {
    const NumberAttribute* const beside = number_of(call.attributes);
    return beside == nullptr ? std::array<PointwiseOperand, 2>{call.inputs[0], call.inputs[1]}
                             : operands_beside(call.inputs, *beside);
  }
  static RowLoop loop_of(const RowInputs& call) {
    const DType dtype = call.inputs[0].dtype;
    return row_loop(binary_loop(row, dtype), operands(call), dtype);
  }
  static void cpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    const PointwiseLoop loop = binary_loop(row, dtype);
    if (const NumberAttribute* const beside = number_of(call.attributes)) [[unlikely]]
      return run_beside_number(call, *beside, loop);
    run_on_cpu<3>(Row::name, call.outputs[0], {call.inputs[0], call.inputs[1]}, loop, dtype);
  }
#if SLUICE_CUDA
  static void gpu(const KernelCall& call) {
    const DType dtype = call.inputs[0].dtype;
    const auto args = pointwise_args<3>(Row::name, call.outputs[0], operands(call), dtype);
    run_on_gpu(Row::name, args, binary_launch(row, dtype), dtype, call.queue);
  }
#endif

  static constexpr Uses uses = Row::uses_a | Row::uses_b;
  static constexpr Operator op{
      .name = Row::name,
      .inputs = -1,
      .attributes = &attribute_type<NumberAttribute>,
      .optional_attributes = true,
      .normalise = normalise,
      .infer = infer,
      .alike = alike,
      .kernels = {on_cpu(cpu), on_gpu(SLUICE_GPU_KERNEL(gpu))},
      .gradient = gradient_or_none(),
      .saved_inputs = Mask{(uses & (a_ | b_)) != 0 ? Mask{3} : k_none},
      .saved_outputs = (uses & y_) != 0 ? Mask{1} : k_none,
      .strided_inputs = k_all,
      .strided_outputs = true,
      .elementwise = true,
      .saved_for = saved_for,
      .saved_outputs_for = saved_outputs_for,
  };
};

}  // namespace sluice::detail
