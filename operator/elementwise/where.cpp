// where: a condition chooses between two arrays, or an array and a number.
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/row_loops.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>

namespace sluice {

namespace {

// The condition is bool, the branches have one type, which holds the number if one of them is that.
bool normalise(const RawCall& call, NormalCall& normal) {
  const detail::NumberAttribute* const beside = detail::number_of(call.attributes);
  detail::check_operands("where", call.inputs.size(), 3, beside);
  DType dtype = promote(call.inputs[1].dtype(), call.inputs.back().dtype());
  if (beside != nullptr) {
    dtype = beside->number.beside(dtype);
    require<ValueError>(detail::scalar_fits(beside->number, dtype), [&] {
      return message("where: the number ", beside->number.as_int64(), " does not fit ", dtype);
    });
  }
  if (call.inputs[0].dtype() == DType::bool_ && call.inputs[1].dtype() == dtype && call.inputs.back().dtype() == dtype)
    return false;
  for (std::size_t i = 0; i < call.inputs.size(); ++i)
    normal.inputs.push_back(call.inputs[i].astype(i == 0 ? DType::bool_ : dtype, call.site));
  normal.attributes = call.attributes;
  return true;
}

Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  detail::check_operands("where", inputs.size(), 3, detail::number_of(attributes));
  require<DTypeError>(inputs[0].dtype == DType::bool_, [&] {
    return message("where: the condition is ", inputs[0].dtype, ", not bool");
  });
  ArraySpec spec = detail::infer_elementwise("where", RowKind::comparison, inputs.subspan(1))[0];
  spec.dtype = inputs[1].dtype;
  spec.shape = broadcast_shape(spec.shape, inputs[0].shape, "where");
  return {spec};
}

template <class Call>
std::array<detail::PointwiseOperand, 3> operands(const Call& call) {
  std::array<detail::PointwiseOperand, 3> all{call.inputs[0], call.inputs[1], call.inputs.back()};
  if (const detail::NumberAttribute* const beside = detail::number_of(call.attributes))
    all[beside->first ? 1 : 2] = beside->number;
  return all;
}

detail::PointwiseArgs<4> args(const KernelCall& call) {
  return detail::pointwise_args<4>("where", call.outputs[0], operands(call), call.inputs[1].dtype);
}

detail::RowLoop loop_of(const detail::RowInputs& call) {
  const DType dtype = call.inputs[1].dtype;
  return detail::row_loop(detail::where_loop(dtype), operands(call), dtype);
}

void cpu_kernel(const KernelCall& call) {
  const DType dtype = call.inputs[1].dtype;
  detail::run_on_cpu("where", args(call), detail::where_loop(dtype), dtype);
}
#if SLUICE_CUDA
void gpu_kernel(const KernelCall& call) {
  const DType dtype = call.inputs[1].dtype;
  detail::run_on_gpu("where", args(call), detail::where_launch(dtype), dtype, call.queue);
}
#endif

Arrays gradient(const GradientCall& call) {
  Arrays grads(call.inputs.size());
  const NDArray &dy = call.output_grads[0], &condition = call.inputs[0];
  if (!dy.defined())
    return grads;
  const detail::NumberAttribute* const beside = detail::number_of(call.attributes);
  for (std::size_t i = 1; i < grads.size(); ++i) {
    if (!call.wanted[i])
      continue;
    const bool is_then = i == 1 && (beside == nullptr || !beside->first);
    grads[i] = sum_to_shape(is_then ? where(condition, dy, 0) : where(condition, 0, dy), call.input_specs[i].shape);
  }
  return grads;
}

constexpr Operator k_where{
    .name = "where",
    .inputs = -1,
    .attributes = &attribute_type<detail::NumberAttribute>,
    .optional_attributes = true,
    .normalise = normalise,
    .infer = infer,
    .kernels = {on_cpu(cpu_kernel), on_gpu(SLUICE_GPU_KERNEL(gpu_kernel))},
    .gradient = gradient,
    .saved_inputs = Mask{1},
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

void check_defined(std::initializer_list<NDArray> arrays) {
  for (const NDArray& array : arrays)
    require<ValueError>(array.defined(), [] { return "where: an operand is an undefined NDArray"; });
}

NDArray with_number(
    const NDArray& condition, const NDArray& array, detail::NumberAttribute number, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_defined({condition, array});
    return invoke_one(k_where, {condition, array}, Attributes::of(number), site);
  });
}

}  // namespace

void detail::list_where(std::vector<const Operator*>& all) {
  all.push_back(&k_where);
}

void detail::list_where_rows(std::vector<RowOperator>& all) {
  all.push_back({&k_where, loop_of});
}

NDArray where(const NDArray& condition, const NDArray& a, const NDArray& b, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_defined({condition, a, b});
    return invoke_one(k_where, {condition, a, b}, {}, site);
  });
}

NDArray where(const NDArray& condition, const NDArray& a, Scalar b, SourceLocation site) {
  return with_number(condition, a, {b, false, true}, site);
}

NDArray where(const NDArray& condition, Scalar a, const NDArray& b, SourceLocation site) {
  return with_number(condition, b, {a, true, true}, site);
}

NDArray where(const NDArray& condition, Scalar a, Scalar b, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    check_defined({condition});
    const DType dtype = b.beside(a.beside(bool_));
    return where(condition, full({}, a, {.dtype = dtype, .device = condition.device()}, site), b, site);
  });
}

}  // namespace sluice
