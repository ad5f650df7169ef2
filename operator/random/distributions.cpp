// The operators of distributions.
#include <cmath>

#include <sluice/operator/floating.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/normalise.h>
#include <sluice/operator/own_defaults.h>
#include <sluice/operator/random/draw.h>
#include <sluice/operator/random/drawn.h>

namespace sluice {

namespace detail {

DrawParameters draw_parameters(const KernelCall& call) {
  if (call.op.state_input == 1)  // behind the array
    return {{0, 1, 0, 0}, call.inputs[0].as<const double>()};
  const auto& a = call.attributes.as<DistributionAttributes>();
  return {{a.first, a.second, a.third, a.fourth}, nullptr};
}

CategoricalWork categorical_work(const KernelCall& call) {
  const TensorView &weights = call.inputs[0], &to = call.outputs[0];
  CategoricalWork work{weights.as<const double>(), to.as<std::int64_t>()};
  work.categories = weights.shape[weights.shape.ndim() - 1];
  work.draws = to.shape[to.shape.ndim() - 1];
  work.rows = weights.size / work.categories;
  return work;
}

}  // namespace detail

namespace {

using detail::CategoricalAttributes;
using detail::DistributionAttributes;
using detail::SampleAttributes;

std::uint64_t a_block_each(std::span<const ArraySpec> outputs, const Attributes&) {
  return static_cast<std::uint64_t>(outputs[0].shape.size());
}

template <bool Integers>
void check_type(const char* op, DType dtype) {
  require<DTypeError>(is_floating(dtype) || (Integers && is_integer(dtype)), [&] {
    return message(op, ": makes ", Integers ? "integers and floating types, not " : "floating types, not ", dtype);
  });
}

// -- What is a distribution, also where the operator is called by name ----------------------------------------------
using Check = void (*)(const DistributionAttributes& a);

void require_scale(const char* function, double scale) {
  require<ValueError>(std::isfinite(scale) && scale >= 0, [&] {
    return message(function, ": scale is ", scale, ", it must be finite and at least 0");
  });
}

void require_above_zero(const char* function, const char* what, double value) {
  require<ValueError>(std::isfinite(value) && value > 0, [&] {
    return message(function, ": ", what, " is ", value, ", it must be finite and above 0");
  });
}

void require_finite(const char* function, const char* what, double value) {
  require<ValueError>(
      std::isfinite(value), [&] { return message(function, ": ", what, " is ", value, ", it must be finite"); });
}

void check_exponential(const DistributionAttributes& a) {
  require_scale("random::exponential", a.first);
}
void check_laplace(const DistributionAttributes& a) {
  require_finite("random::laplace", "loc", a.first);
  require_scale("random::laplace", a.second);
}
void check_gumbel(const DistributionAttributes& a) {
  require_finite("random::gumbel", "loc", a.first);
  require_scale("random::gumbel", a.second);
}
void check_truncated(const DistributionAttributes& a) {
  require_finite("random::truncated_normal", "mean", a.first);
  require_above_zero("random::truncated_normal", "std", a.second);
  require<ValueError>(a.third <= a.fourth, [&] {
    return message("random::truncated_normal: nothing lies in [", a.third, ", ", a.fourth, "]");
  });
}
void check_gamma(const DistributionAttributes& a) {
  require_above_zero("random::gamma", "alpha", a.first);
  require_scale("random::gamma", a.second);
}
void check_beta(const DistributionAttributes& a) {
  constexpr double k_least = 1e-300;  // of less not even the logarithms of gammas are numbers
  const auto fits = [](double value) { return std::isfinite(value) && value >= k_least; };
  require<ValueError>(fits(a.first) && fits(a.second), [&] {
    return message("random::beta: a is ", a.first, ", b ", a.second, ", they must be finite and at least ", k_least);
  });
}
void check_poisson(const DistributionAttributes& a) {
  require<ValueError>(a.first >= 0 && a.first <= detail::PoissonDraw::k_most, [&] {
    return message("random::poisson: lam is ", a.first, ", it must be within [0, 2^52]");
  });
}

// The ends of [third, fourth] become those among the numbers of the type.
bool normalise_truncated(const RawCall& call, NormalCall& normal) {
  const auto& given = call.attributes.as<DistributionAttributes>();
  if (!is_floating(given.dtype) || !(given.third <= given.fourth))  // which inference refuses
    return false;
  DistributionAttributes a = given;
  detail::by_floating(a.dtype, [&]<class T>() {
    using C = detail::Compute<T>;
    const T first = static_cast<T>(static_cast<C>(a.third)), last = static_cast<T>(static_cast<C>(a.fourth));
    const auto value = [](T of) { return static_cast<double>(static_cast<C>(of)); };
    const T above = static_cast<T>(-static_cast<C>(detail::number_before(static_cast<T>(-static_cast<C>(first)))));
    a.third = value(value(first) < a.third ? above : first);
    a.fourth = value(value(last) > a.fourth ? detail::number_before(last) : last);
  });
  require<ValueError>(a.third <= a.fourth, [&] {
    return message("random::truncated_normal: no ", a.dtype, " lies in [", given.third, ", ", given.fourth, "]");
  });
  return (a.third != given.third || a.fourth != given.fourth) && detail::with_attributes(call, a, normal);
}

// Parameters in float64.
bool normalise_parameters(const RawCall& call, NormalCall& normal) {
  if (call.inputs.empty() || call.inputs[0].dtype() == float64 || !is_floating(call.inputs[0].dtype()))
    return false;
  detail::as_given(call, normal);
  normal.inputs[0] = normal.inputs[0].astype(float64, call.site);
  return true;
}

template <bool Integers, Check check>
Specs infer_draw(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<DistributionAttributes>();
  for (const std::int64_t extent : a.shape)
    require<ShapeError>(extent >= 0, [&] { return message(op.name, ": shape ", a.shape, " has a negative extent"); });
  check_type<Integers>(op.name, a.dtype);
  check(a);
  detail::check_state(op.name, inputs, 0, a.device);
  return {{a.shape, a.dtype, a.device}};
}

void check_parameters(const Operator& op, std::span<const ArraySpec> inputs) {
  require<ValueError>(!inputs.empty(), [&] { return message(op.name, ": has no input"); });
  require<DTypeError>(inputs[0].dtype == float64, [&] {
    return message(op.name, ": takes arrays of floating types, not ", inputs[0].dtype);
  });
  detail::check_state(op.name, inputs, 1, inputs[0].device);
}

template <bool Integers>
Specs infer_sample(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const DType dtype = attributes.as<SampleAttributes>().dtype;
  check_parameters(op, inputs);
  check_type<Integers>(op.name, dtype);
  return {{inputs[0].shape, dtype, inputs[0].device}};
}

Specs infer_categorical(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const std::int64_t draws = attributes.as<CategoricalAttributes>().draws;
  check_parameters(op, inputs);
  require<ValueError>(draws >= 0, [&] { return message(op.name, ": ", draws, " draws"); });
  Shape shape = inputs[0].shape;
  require<ShapeError>(shape.ndim() > 0 && shape[shape.ndim() - 1] > 0, [&] {
    return message(op.name, ": weights of shape ", shape, " have no categories along a last axis");
  });
  shape[shape.ndim() - 1] = draws;
  return {{shape, int64, inputs[0].device}};
}

template <class A>
A whole_numbers() {
  A made;
  made.dtype = DType::int64;
  return made;
}
// What may be integers is int64 where a call does not say.
template <class A, bool Integers>
constexpr const AttributeType* k_attributes_of = Integers ? &attribute_type_from<whole_numbers<A>> : &attribute_type<A>;

template <class Draw, Check check, bool Integers = false>
constexpr Operator k_draw_of(const char* name, Normalise normalise = nullptr) {
  return {
      .name = name,
      .inputs = -1,
      .attributes = k_attributes_of<DistributionAttributes, Integers>,
      .normalise = normalise,
      .infer = infer_draw<Integers, check>,
      .kernels = {on_cpu(detail::draw_cpu<Draw>), on_gpu(SLUICE_GPU_KERNEL(detail::draw_gpu<Draw>))},
      .random = a_block_each,
      .state_input = 0,
  };
}

template <class Draw, bool Integers = false>
constexpr Operator k_sample_of(const char* name) {
  return {
      .name = name,
      .inputs = -1,
      .attributes = k_attributes_of<SampleAttributes, Integers>,
      .normalise = normalise_parameters,
      .infer = infer_sample<Integers>,
      .kernels = {on_cpu(detail::draw_cpu<Draw>), on_gpu(SLUICE_GPU_KERNEL(detail::draw_gpu<Draw>))},
      .random = a_block_each,
      .state_input = 1,
  };
}

}  // namespace

constinit const Operator k_random_exponential =
    k_draw_of<detail::ExponentialDraw, check_exponential>("random_exponential");
constinit const Operator k_random_laplace = k_draw_of<detail::LaplaceDraw, check_laplace>("random_laplace");
constinit const Operator k_random_gumbel = k_draw_of<detail::GumbelDraw, check_gumbel>("random_gumbel");
constinit const Operator k_random_truncated_normal =
    k_draw_of<detail::TruncatedDraw, check_truncated>("random_truncated_normal", normalise_truncated);
constinit const Operator k_random_gamma = k_draw_of<detail::GammaDraw, check_gamma>("random_gamma");
constinit const Operator k_random_beta = k_draw_of<detail::BetaDraw, check_beta>("random_beta");
constinit const Operator k_random_poisson = k_draw_of<detail::PoissonDraw, check_poisson, true>("random_poisson");
constinit const Operator k_sample_gamma = k_sample_of<detail::GammaDraw>("sample_gamma");
constinit const Operator k_sample_poisson = k_sample_of<detail::PoissonDraw, true>("sample_poisson");
constinit const Operator k_sample_categorical = {
    .name = "sample_categorical",
    .inputs = -1,
    .attributes = &attribute_type<CategoricalAttributes>,
    .normalise = normalise_parameters,
    .infer = infer_categorical,
    .kernels = {on_cpu(detail::categorical_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::categorical_gpu))},
    .random = a_block_each,
    .state_input = 1,
};

}  // namespace sluice
