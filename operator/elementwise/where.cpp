// where: a condition chooses between two arrays, or an array and a number.
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>

namespace sluice {

namespace {

// Which of the two branches is a number.
enum class WhereForm : std::uint8_t { arrays, scalar_else, scalar_then };

template <WhereForm form>
constexpr const char* k_name = form == WhereForm::arrays        ? "where"
                               : form == WhereForm::scalar_else ? "where_scalar"
                                                                : "scalar_where";

// The condition is bool, the branches have one type, which holds the number if one of them is that.
template <WhereForm form>
bool normalise(const RawCall& call, NormalCall& normal) {
  DType dtype = call.inputs[1].dtype();
  if constexpr (form == WhereForm::arrays) {
    dtype = promote(dtype, call.inputs[2].dtype());
  } else {
    const Scalar number = call.attributes.as<detail::NumberAttribute>().number;
    dtype = number.beside(dtype);
    require<ValueError>(detail::scalar_fits(number, dtype), [&] {
      return message("where: the number ", number.as_int64(), " does not fit ", dtype);
    });
  }
  if (call.inputs[0].dtype() == DType::bool_ && call.inputs[1].dtype() == dtype && call.inputs.back().dtype() == dtype)
    return false;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    normal.inputs.push_back(call.inputs[i].astype(i == 0 ? DType::bool_ : dtype, call.site));
  normal.attributes = call.attributes;
  return true;
}

template <WhereForm form>
Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  require<DTypeError>(inputs[0].dtype == DType::bool_, [&] {
    return message(k_name<form>, ": the condition is ", inputs[0].dtype, ", not bool");
  });
  ArraySpec spec = detail::infer_elementwise(k_name<form>, RowKind::comparison, inputs.subspan(1))[0];
  spec.dtype = inputs[1].dtype;
  spec.shape = broadcast_shape(spec.shape, inputs[0].shape, k_name<form>);
  return {spec};
}

template <WhereForm form>
detail::PointwiseArgs<4> args(const KernelCall& call) {
  const DType dtype = call.inputs[1].dtype;
  std::array<detail::PointwiseOperand, 3> operands{call.inputs[0], call.inputs[1], call.inputs.back()};
  if constexpr (form != WhereForm::arrays)
    operands[form == WhereForm::scalar_else ? 2 : 1] = call.attributes.as<detail::NumberAttribute>().number;
  return detail::pointwise_args<4>(k_name<form>, call.outputs[0], operands, dtype);
}

template <WhereForm form>
void cpu_kernel(const KernelCall& call) {
  const DType dtype = call.inputs[1].dtype;
  detail::run_on_cpu(k_name<form>, args<form>(call), detail::where_loop(dtype), dtype);
}
#if SLUICE_CUDA
template <WhereForm form>
void gpu_kernel(const KernelCall& call) {
  const DType dtype = call.inputs[1].dtype;
  detail::run_on_gpu(k_name<form>, args<form>(call), detail::where_launch(dtype), dtype, call.queue);
}
#endif

template <WhereForm form>
Arrays gradient(const GradientCall& call) {
  Arrays grads(call.inputs.size());
  const NDArray &dy = call.output_grads[0], &condition = call.inputs[0];
  if (!dy.defined())
    return grads;
  for (std::size_t i = 1; i < grads.size(); ++i) {
    if (!call.wanted[i])
      continue;
    const bool is_then = i == 1 && form != WhereForm::scalar_then;
    grads[i] = sum_to_shape(is_then ? where(condition, dy, 0) : where(condition, 0, dy), call.input_specs[i].shape);
  }
  return grads;
}

template <WhereForm form>
constexpr Operator k_where{
    .name = k_name<form>,
    .inputs = form == WhereForm::arrays ? 3 : 2,
    .attributes = form == WhereForm::arrays ? &attribute_type<NoAttributes> : &attribute_type<detail::NumberAttribute>,
    .normalise = normalise<form>,
    .infer = infer<form>,
    .cpu = cpu_kernel<form>,
    .gpu = SLUICE_GPU_KERNEL(gpu_kernel<form>),
    .gradient = gradient<form>,
    .saved_inputs = Mask{1},
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

void check_defined(std::initializer_list<NDArray> arrays) {
  for (const NDArray& array : arrays)
    require<ValueError>(array.defined(), [] { return "where: an operand is an undefined NDArray"; });
}

template <WhereForm form>
NDArray with_scalar(const NDArray& condition, const NDArray& array, Scalar number, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_defined({condition, array});
    return invoke_one(k_where<form>, {condition, array}, Attributes::of(detail::NumberAttribute{number}), site);
  });
}

}  // namespace

void detail::list_where(std::vector<const Operator*>& all) {
  all.insert(
      all.end(), {&k_where<WhereForm::arrays>, &k_where<WhereForm::scalar_else>, &k_where<WhereForm::scalar_then>});
}

NDArray where(const NDArray& condition, const NDArray& a, const NDArray& b, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_defined({condition, a, b});
    return invoke_one(k_where<WhereForm::arrays>, {condition, a, b}, {}, site);
  });
}

NDArray where(const NDArray& condition, const NDArray& a, Scalar b, SourceLocation site) {
  return with_scalar<WhereForm::scalar_else>(condition, a, b, site);
}

NDArray where(const NDArray& condition, Scalar a, const NDArray& b, SourceLocation site) {
  return with_scalar<WhereForm::scalar_then>(condition, b, a, site);
}

}  // namespace sluice
