#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>

namespace sluice {

namespace {

struct ClipAttributes {
  Scalar low = 0, high = 0;

  template <class V>
  void visit(V&& v) {
    v.field("low", low);
    v.field("high", high);
  }
};

// A bound beyond what the type holds is the type's own.
bool normalise(const RawCall& call, NormalCall& normal) {
  const auto& a = call.attributes.as<ClipAttributes>();
  require<ValueError>(a.low.as_double() <= a.high.as_double(), [&] {
    return message("clip: low ", a.low.as_double(), " is not below high ", a.high.as_double());
  });
  const DType given = call.inputs[0].dtype();
  const DType dtype = detail::operand_type(RowKind::arithmetic, a.high.beside(a.low.beside(given)));
  if (dtype == given && detail::scalar_fits(a.low, dtype) && detail::scalar_fits(a.high, dtype))
    return false;
  normal.inputs.push_back(call.inputs[0].astype(dtype, call.site));
  normal.attributes =
      Attributes::of(ClipAttributes{detail::scalar_within(a.low, dtype), detail::scalar_within(a.high, dtype)});
  return true;
}

Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return detail::infer_elementwise("clip", RowKind::arithmetic, inputs.first(1));
}

detail::PointwiseArgs<4> forward_args(const KernelCall& call) {
  const auto& a = call.attributes.as<ClipAttributes>();
  return detail::pointwise_args<4>("clip", call.outputs[0], {call.inputs[0], a.low, a.high}, call.inputs[0].dtype);
}
detail::PointwiseArgs<5> backward_args(const KernelCall& call) {
  const auto& a = call.attributes.as<ClipAttributes>();
  return detail::pointwise_args<5>(
      "clip_backward", call.outputs[0], {call.inputs[0], call.inputs[1], a.low, a.high}, call.inputs[0].dtype);
}

void forward_cpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_cpu("clip", forward_args(call), detail::clip_loop(dtype), dtype);
}
void backward_cpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_cpu("clip_backward", backward_args(call), detail::clip_gradient_loop(dtype), dtype);
}
#if SLUICE_CUDA
void forward_gpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_gpu("clip", forward_args(call), detail::clip_launch(dtype), dtype, call.queue);
}
void backward_gpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_gpu("clip_backward", backward_args(call), detail::clip_gradient_launch(dtype), dtype, call.queue);
}
#endif

// dy, x.
constexpr Operator k_backward{
    .name = "clip_backward",
    .inputs = 2,
    .attributes = &attribute_type<ClipAttributes>,
    .infer = infer,
    .cpu = backward_cpu,
    .gpu = SLUICE_GPU_KERNEL(backward_gpu),
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

Arrays gradient(const GradientCall& call) {
  const NDArray &dy = call.output_grads[0], &x = call.inputs[0];
  if (!dy.defined())
    return {NDArray()};
  const auto& a = call.attributes.as<ClipAttributes>();
  if (autograd::is_recording())
    return {where(logical_and(x >= a.low, x <= a.high), dy, 0)};
  const NDArray inputs[] = {dy, x};
  return invoke(k_backward, inputs, call.attributes, SourceLocation::current());
}

constexpr Operator k_forward{
    .name = "clip",
    .attributes = &attribute_type<ClipAttributes>,
    .normalise = normalise,
    .infer = infer,
    .cpu = forward_cpu,
    .gpu = SLUICE_GPU_KERNEL(forward_gpu),
    .gradient = gradient,
    .saved_inputs = Mask{1},
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

}  // namespace

void detail::list_clip(std::vector<const Operator*>& all) {
  all.push_back(&k_forward);
  all.push_back(&k_backward);
}

NDArray clip(const NDArray& x, Scalar low, Scalar high, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    require<ValueError>(x.defined(), [] { return "clip: input 0 is an undefined NDArray"; });
    return invoke_one(k_forward, {x}, Attributes::of(ClipAttributes{low, high}), site);
  });
}

}  // namespace sluice
