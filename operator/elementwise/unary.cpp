// Everything of the rows of unary.def but their loops: operators, gradients, public functions.
#include <array>
#include <tuple>
#include <utility>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/arrays.h>
#include <sluice/operator/elementwise/families.h>
#include <sluice/operator/elementwise/in_place.h>
#include <sluice/operator/elementwise/kernels.h>
#include <sluice/operator/elementwise/parameters.h>
#include <sluice/operator/elementwise/row_loops.h>
#include <sluice/operator/elementwise/run.h>
#include <sluice/operator/elementwise/types.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>

namespace sluice {

namespace {

using math::UnaryRow;

template <Unary row>
constexpr bool k_differentiable = is_differentiable(UnaryRow<row>::kind);
// A gradient of dy alone is written with arrays; others have a fused kernel.
template <Unary row>
constexpr bool k_fused = k_differentiable<row>&& UnaryRow<row>::uses != nothing_;

template <Unary row>
using Parameters = UnaryParameters<row>;
template <Unary row>
constexpr int k_parameters = UnaryRow<row>::parameters;
template <Unary row>
constexpr const AttributeType* k_attributes =
    k_parameters<row> == 0 ? &attribute_type<NoAttributes> : &attribute_type<Parameters<row>>;

template <Unary row>
bool normalise(const RawCall& call, NormalCall& normal) {
  DType dtype = call.inputs[0].dtype();
  if constexpr (k_parameters < row >> 0) {
    const auto& parameters = call.attributes.as<Parameters<row>>();
    check_parameters(parameters);
    for (const Scalar number : parameters.numbers())
      dtype = number.beside(dtype);
  }
  return detail::cast_inputs(call, detail::operand_type(UnaryRow<row>::kind, dtype), normal);
}

template <Unary row>
Specs infer(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return detail::infer_elementwise(UnaryRow<row>::name, UnaryRow<row>::kind, inputs);
}

template <Unary row>
bool alike([[maybe_unused]] std::size_t inputs, const Attributes&, DType& dtype) {
  return k_parameters<row> == 0 && detail::alike_elementwise(UnaryRow<row>::kind, dtype, dtype);
}

// N arrays, and the parameters behind them: numbers of the kernel's type.
template <Unary row, class Call, std::size_t... I, std::size_t... P>
std::array<detail::PointwiseOperand, sizeof...(I) + sizeof...(P)> operands(
    const Call& call, std::index_sequence<I...>, std::index_sequence<P...>) {
  if constexpr (sizeof...(P) == 0) {
    return {call.inputs[I]...};
  } else {
    const auto numbers = call.attributes.template as<Parameters<row>>().numbers();
    return {call.inputs[I]..., detail::scalar_within(numbers[P], call.inputs[0].dtype)...};
  }
}
template <Unary row, std::size_t N, class Call>
auto operands(const Call& call) {
  return operands<row>(call, std::make_index_sequence<N>(), std::make_index_sequence<k_parameters<row>>());
}

template <Unary row>
detail::RowLoop forward_loop(const detail::RowInputs& call) {
  const DType dtype = call.inputs[0].dtype;
  return detail::row_loop(detail::unary_loop(row, dtype), operands<row, 1>(call), dtype);
}
template <Unary row>
detail::RowLoop backward_loop(const detail::RowInputs& call) {
  const DType dtype = call.inputs[0].dtype;
  return detail::row_loop(detail::unary_backward_loop(row, dtype), operands<row, 3>(call), dtype);
}

template <Unary row>
void forward_cpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  detail::run_on_cpu<2 + k_parameters<row>>(
      UnaryRow<row>::name, call.outputs[0], operands<row, 1>(call), detail::unary_loop(row, dtype), dtype);
}

template <Unary row>
void backward_cpu(const KernelCall& call) {
  const DType dtype = call.inputs[0].dtype;
  const detail::PointwiseLoop loop = detail::unary_backward_loop(row, dtype);
  detail::run_on_cpu<4 + k_parameters<row>>(
      UnaryRow<row>::backward_name, call.outputs[0], operands<row, 3>(call), loop, dtype);
}

#if SLUICE_CUDA
template <Unary row>
void forward_gpu(const KernelCall& call) {
  constexpr int P = k_parameters<row>;
  constexpr const char* name = UnaryRow<row>::name;
  const DType dtype = call.inputs[0].dtype;
  const auto args = detail::pointwise_args<2 + P>(name, call.outputs[0], operands<row, 1>(call), dtype);
  detail::run_on_gpu(name, args, detail::unary_launch<P>(row, dtype), dtype, call.queue);
}
template <Unary row>
void backward_gpu(const KernelCall& call) {
  constexpr int P = k_parameters<row>;
  constexpr const char* name = UnaryRow<row>::backward_name;
  const DType dtype = call.inputs[0].dtype;
  const auto args = detail::pointwise_args<4 + P>(name, call.outputs[0], operands<row, 3>(call), dtype);
  detail::run_on_gpu(name, args, detail::unary_backward_launch<P>(row, dtype), dtype, call.queue);
}
#endif

// dy, x, y; what the formula does not read is given as dy and never loaded.
template <Unary row>
Specs infer_backward(const Operator&, std::span<const ArraySpec> inputs, const Attributes&) {
  return detail::infer_backward(UnaryRow<row>::backward_name, inputs);
}

bool alike_backward(std::size_t, const Attributes&, DType& dtype) {
  return is_floating(dtype);
}

template <Unary row>
struct Backward {
  static constexpr Operator op{
      .name = UnaryRow<row>::backward_name,
      .inputs = 3,
      .attributes = k_attributes<row>,
      .infer = infer_backward<row>,
      .alike = alike_backward,
      .kernels = {on_cpu(backward_cpu<row>), on_gpu(SLUICE_GPU_KERNEL(backward_gpu<row>))},
      .strided_inputs = k_all,
      .strided_outputs = true,
      .elementwise = true,
  };
};

// The gradient's formula for arrays, which is recorded in its turn.
template <Unary row>
NDArray formula(const NDArray& dy, const NDArray& x, const NDArray& y, const Attributes& attributes) {
  using Formula = typename UnaryRow<row>::Gradient;
  if constexpr (k_parameters<row> == 0) {
    return Formula::template of<NDArray>(dy, x, y);
  } else {
    const auto of = [&](const auto&... numbers) { return Formula::template of<NDArray>(dy, x, y, numbers...); };
    return std::apply(of, attributes.as<Parameters<row>>().numbers());
  }
}

template <Unary row>
Arrays gradient(const GradientCall& call) {
  const NDArray& dy = call.output_grads[0];
  if (!dy.defined())
    return {NDArray()};
  const NDArray &x = call.inputs[0], &y = call.outputs[0];
  if constexpr (k_fused<row>) {
    if (!autograd::is_recording()) {
      const NDArray inputs[] = {dy, x.defined() ? x : dy, y.defined() ? y : dy};
      return invoke(Backward<row>::op, inputs, call.attributes, SourceLocation::current());
    }
    return {formula<row>(widened(dy), widened(x), widened(y), call.attributes).astype(dy.dtype())};
  } else {
    return {formula<row>(dy, x, y, call.attributes)};
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
    .attributes = k_attributes<row>,
    .normalise = normalise<row>,
    .infer = infer<row>,
    .alike = alike<row>,
    .kernels = {on_cpu(forward_cpu<row>), on_gpu(SLUICE_GPU_KERNEL(forward_gpu<row>))},
    .gradient = gradient_of<row>(),
    .saved_inputs = (UnaryRow<row>::uses & x_) != 0 ? Mask{1} : k_none,
    .saved_outputs = (UnaryRow<row>::uses & y_) != 0 ? Mask{1} : k_none,
    .strided_inputs = k_all,
    .strided_outputs = true,
    .elementwise = true,
};

template <Unary row>
NDArray apply(const NDArray& x, Attributes attributes, SourceLocation site) {
  return detail::located(site, [&]() -> NDArray {
    require<ValueError>(x.defined(), [] { return message(UnaryRow<row>::name, ": input 0 is an undefined NDArray"); });
    return invoke_one(k_forward<row>, {x}, std::move(attributes), site);
  });
}

template <Unary row>
constexpr const Operator* backward_operator() noexcept {
  if constexpr (k_fused<row>)
    return &Backward<row>::op;
  return nullptr;
}

template <Unary row>
void list(std::vector<const Operator*>& all) {
  all.push_back(&k_forward<row>);
  if constexpr (k_fused<row>)
    all.push_back(&Backward<row>::op);
}

template <Unary row>
void list_loops(std::vector<detail::RowOperator>& all) {
  all.push_back({&k_forward<row>, forward_loop<row>});
  if constexpr (k_fused<row>)
    all.push_back({&Backward<row>::op, backward_loop<row>});
}

}  // namespace

NDArray detail::relu_gradient(const NDArray& dy, const NDArray& y, SourceLocation site) {
  if (autograd::is_recording())
    return formula<Unary::relu>(dy, dy, y, {});
  return invoke_one(Backward<Unary::relu>::op, {dy, dy, y}, {}, site);
}

const Operator& detail::relu_backward_operator() noexcept {
  return Backward<Unary::relu>::op;
}

const Operator* detail::unary_backward_operator(Unary row) noexcept {
  static constexpr const Operator* all[] = {
#define UNARY(name, ...) backward_operator<Unary::name>(),
#include <sluice/operator/elementwise/unary.def>
  };
  return all[static_cast<std::size_t>(row)];
}

void detail::list_unary(std::vector<const Operator*>& all) {
#define UNARY(name, ...) list<Unary::name>(all);
#include <sluice/operator/elementwise/unary.def>
}

void detail::list_unary_rows(std::vector<RowOperator>& all) {
#define UNARY(name, ...) list_loops<Unary::name>(all);
#include <sluice/operator/elementwise/unary.def>
}

#define UNARY(name, ...)                                \
  NDArray name(const NDArray& x, SourceLocation site) { \
    return apply<Unary::name>(x, {}, site);             \
  }
#define SLUICE_AS_ARGUMENT(type, name, value) , type name
#define SLUICE_AS_INITIALIZER(type, name, value) .name = name,
#define UNARY_WITH(row, parameters, ...)                                                                     \
  NDArray row(const NDArray& x SLUICE_EACH_PARAMETER(SLUICE_AS_ARGUMENT, parameters), SourceLocation site) { \
    const UnaryParameters<Unary::row> given{SLUICE_EACH_PARAMETER(SLUICE_AS_INITIALIZER, parameters)};       \
    return apply<Unary::row>(x, Attributes::of(given), site);                                                \
  }
#include <sluice/operator/elementwise/unary.def>

NDArray zero_like(const NDArray& array) {
  return zeros_like(array);
}

}  // namespace sluice
