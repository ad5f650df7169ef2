// Everything of the rows of unary.def but their loops: operators, gradients, public functions.
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

using math::UnaryRow;

template <Unary row>
constexpr bool k_differentiable = !gives_bool(UnaryRow<row>::kind);
// A gradient of dy alone is written with arrays; others have a fused kernel.
template <Unary row>
constexpr bool k_fused = k_differentiable<row>&& UnaryRow<row>::uses != nothing_;

template <Unary row>
bool normalise(const RawCall& call, NormalCall& normal) {
  return detail::cast_inputs(call, detail::operand_type(UnaryRow<row>::kind, call.inputs[0].dtype()), normal);
}

template <Unary row>
Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return detail::infer_elementwise(UnaryRow<row>::name, UnaryRow<row>::kind, inputs);
}

template <Unary row>
void forward_cpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_cpu<2>(UnaryRow<row>::name, call.outputs[0], {call.inputs[0]}, detail::unary_loop(row, dtype), dtype);
}

template <Unary row>
void backward_cpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_cpu<4>(
      UnaryRow<row>::name,
      call.outputs[0],
      {call.inputs[0], call.inputs[1], call.inputs[2]},
      detail::unary_gradient_loop(row, dtype),
      dtype);
}

#if SLUICE_CUDA
template <Unary row>
detail::PointwiseArgs<2> forward_args(const KernelCall& call) {
  return detail::pointwise_args<2>(UnaryRow<row>::name, call.outputs[0], {call.inputs[0]}, call.inputs[0].dtype);
}
template <Unary row>
detail::PointwiseArgs<4> backward_args(const KernelCall& call) {
  return detail::pointwise_args<4>(
      UnaryRow<row>::name, call.outputs[0], {call.inputs[0], call.inputs[1], call.inputs[2]}, call.inputs[0].dtype);
}
template <Unary row>
void forward_gpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_gpu(UnaryRow<row>::name, forward_args<row>(call), detail::unary_launch(row, dtype), dtype, call.queue);
}
template <Unary row>
void backward_gpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_gpu(
      UnaryRow<row>::name, backward_args<row>(call), detail::unary_gradient_launch(row, dtype), dtype, call.queue);
}
#endif

// dy, x, y; what the formula does not read is given as dy and never loaded.
template <Unary row>
Specs infer_backward(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return {inputs[0]};
}

template <Unary row>
struct Backward {
  static constexpr Operator op{
      .name = UnaryRow<row>::backward_name,
      .inputs = 3,
      .infer = infer_backward<row>,
      .cpu = backward_cpu<row>,
      .gpu = SLUICE_GPU_KERNEL(backward_gpu<row>),
      .strided_inputs = k_all,
      .strided_outputs = true,
      .elementwise = true,
  };
};

template <Unary row>
Arrays gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const NDArray &x = call.inputs[0], &y = call.outputs[0];
  if constexpr (k_fused<row>) {
    if (!autograd::is_recording()) {
      const NDArray inputs[] = {dy, x.defined() ? x : dy, y.defined() ? y : dy};
      return invoke(Backward<row>::op, inputs, {}, SourceLocation::current());
    }
    return {UnaryRow<row>::Gradient::template of<NDArray>(widened(dy), widened(x), widened(y)).astype(dy.dtype())};
  } else {
    return {UnaryRow<row>::Gradient::template of<NDArray>(dy, x, y)};
  }
}

template <Unary row>
constexpr Gradient gradient_of() {
  if constexpr (k_differentiable<row>) {
    return gradient<row>;
  } else {
    return nullptr;
  }
}

template <Unary row>
constexpr Operator k_forward{
    .name = UnaryRow<row>::name,
    .normalise = normalise<row>,
    .infer = infer<row>,
    .cpu = forward_cpu<row>,
    .gpu = SLUICE_GPU_KERNEL(forward_gpu<row>),
    .gradient = gradient_of<row>(),
    .saved_inputs = (UnaryRow<row>::uses & x_) != 0 ? Mask{1} : k_none,
    .saved_outputs = (UnaryRow<row>::uses & y_) != 0 ? Mask{1} : k_none,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

template <Unary row>
NDArray apply(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    require<ValueError>(x.defined(), [] { return message(UnaryRow<row>::name, ": input 0 is an undefined NDArray"); });
    return invoke_one(k_forward<row>, {x}, {}, site);
  });
}

template <Unary row>
void list(std::vector<const Operator*>& all) {
  all.push_back(&k_forward<row>);
  if constexpr (k_fused<row>)
    all.push_back(&Backward<row>::op);
}

}  // namespace

void detail::list_unary(std::vector<const Operator*>& all) {
#define UNARY(name, ...) list<Unary::name>(all);
#include <sluice/operator/elementwise/unary.def>
#undef UNARY
}

#define UNARY(name, ...)                                \
  NDArray name(const NDArray& x, SourceLocation site) { \
    return apply<Unary::name>(x, site);                 \
  }
#include <sluice/operator/elementwise/unary.def>
#undef UNARY

NDArray zero_like(const NDArray& array) {
  return zeros_like(array);
}

}  // namespace sluice
