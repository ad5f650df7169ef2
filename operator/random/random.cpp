#include <algorithm>
#include <cmath>
#include <limits>

#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/own_defaults.h>
#include <sluice/operator/random/kernels.h>
#include <sluice/operator/random/random.h>

namespace sluice {

namespace {

using detail::IntegerAttributes;
using detail::RealAttributes;

// -- What is a distribution: kernels take it for granted, also where the operator is called by name -----------------
void check_floating(const char* function, DType dtype) {
  require<DTypeError>(is_floating(dtype), [&] { return message(function, ": makes floating types, not ", dtype); });
}

void check_uniform(const RealAttributes& a) {
  check_floating("random::uniform", a.dtype);
  require<ValueError>(std::isfinite(a.first) && std::isfinite(a.second) && a.first <= a.second, [&] {
    return message("random::uniform: low ", a.first, " and high ", a.second, " are no range");
  });
}

void check_normal(const RealAttributes& a) {
  check_floating("random::normal", a.dtype);
  require<ValueError>(std::isfinite(a.first) && std::isfinite(a.second) && a.second >= 0, [&] {
    return message("random::normal: mean ", a.first, " and standard deviation ", a.second, " are no distribution");
  });
}

// [smallest, largest] of an integer type, of what int64 holds.
std::pair<std::int64_t, std::int64_t> limits_of(DType dtype) {
  return by_any_dtype(dtype, []<class T>() -> std::pair<std::int64_t, std::int64_t> {
    if constexpr (std::is_integral_v<T>) {
      using Limits = std::numeric_limits<T>;
      const std::uint64_t largest = Limits::max(), held = std::numeric_limits<std::int64_t>::max();
      return {static_cast<std::int64_t>(Limits::min()), static_cast<std::int64_t>(std::min(largest, held))};
    } else {
      return {0, 0};
    }
  });
}

void check_integers(const IntegerAttributes& a) {
  require<DTypeError>(is_integer(a.dtype), [&] { return message("random::randint: makes integers, not ", a.dtype); });
  const auto [smallest, largest] = limits_of(a.dtype);
  require<ValueError>(a.first < a.second && a.first >= smallest && a.second - 1 <= largest, [&] {
    return message("random::randint: [", a.first, ", ", a.second, ") is not a range of ", a.dtype);
  });
}

void check_chance(const RealAttributes& a) {
  require<ValueError>(
      a.first >= 0 && a.first <= 1, [&] { return message("random::bernoulli: ", a.first, " is no probability"); });
}

template <class A, void (*check)(const A&)>
Specs infer_random(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const A& a = attributes.as<A>();
  check(a);
  for (const std::int64_t extent : a.shape)
    require<ShapeError>(extent >= 0, [&] { return message(op.name, ": shape ", a.shape, " has a negative extent"); });
  detail::check_state(op.name, inputs, 0, a.device);
  return {{a.shape, a.dtype, a.device}};
}

// Within [0, 1), or of mean 0 and deviation 1.
RealAttributes unit_distribution() {
  return {.shape = {}, .second = 1};
}
IntegerAttributes whole_numbers() {
  return {.shape = {}, .dtype = DType::int64};
}

// Enough for two elements a block, which every distribution makes at least.
std::uint64_t blocks_of(std::span<const ArraySpec> outputs, const Attributes&) {
  return (static_cast<std::uint64_t>(outputs[0].shape.size()) + 1) / 2;
}

template <class N>
NDArray make(
    const Operator& op, N first, N second, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  const detail::RandomAttributes<N> attributes{shape, options.dtype, options.device, first, second};
  if (!options.pinned)
    return invoke_one(op, {}, Attributes::of(attributes), site);
  return detail::located(site, [&]() -> NDArray {
    const NDArray to = empty(shape, options);
    return invoke(op, {}, Attributes::of(attributes), site, std::span(&to, 1))[0];
  });
}

}  // namespace

void detail::check_state(const char* op, std::span<const ArraySpec> inputs, std::size_t others, Device device) {
  require<ValueError>(inputs.size() <= others + 1, [&] {
    return message(op, ": takes at most ", others + 1, " inputs, was given ", inputs.size());
  });
  if (inputs.size() <= others)
    return;
  const ArraySpec& state = inputs.back();
  require<ShapeError>(state.shape == Shape{2}, [&] {
    return message(op, ": the state of random numbers is seed and offset, of shape (2,), not ", state.shape);
  });
  require<DTypeError>(
      state.dtype == int64, [&] { return message(op, ": the state of random numbers is int64, not ", state.dtype); });
  require<DeviceError>(state.device == device, [&] {
    return message(op, ": the state of random numbers is on ", state.device, ", the result on ", device);
  });
}

constinit const Operator k_random_uniform = {
    .name = "random_uniform",
    .inputs = -1,
    .attributes = &attribute_type_from<unit_distribution>,
    .infer = infer_random<RealAttributes, check_uniform>,
    .kernels = {on_cpu(detail::random_uniform_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::random_uniform_gpu))},
    .random = blocks_of,
    .state_input = 0,
};
constinit const Operator k_random_normal = {
    .name = "random_normal",
    .inputs = -1,
    .attributes = &attribute_type_from<unit_distribution>,
    .infer = infer_random<RealAttributes, check_normal>,
    .kernels = {on_cpu(detail::random_normal_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::random_normal_gpu))},
    .random = blocks_of,
    .state_input = 0,
};
constinit const Operator k_random_randint = {
    .name = "random_randint",
    .inputs = -1,
    .attributes = &attribute_type_from<whole_numbers>,
    .infer = infer_random<IntegerAttributes, check_integers>,
    .kernels = {on_cpu(detail::random_randint_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::random_randint_gpu))},
    .random = blocks_of,
    .state_input = 0,
};
constinit const Operator k_random_bernoulli = {
    .name = "random_bernoulli",
    .inputs = -1,
    .attributes = &attribute_type<RealAttributes>,
    .infer = infer_random<RealAttributes, check_chance>,
    .kernels = {on_cpu(detail::random_bernoulli_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::random_bernoulli_gpu))},
    .random = blocks_of,
    .state_input = 0,
};
namespace random {

void seed(std::uint64_t value) {
  Engine::current().seed(value);
}

NDArray uniform(double low, double high, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_uniform, low, high, shape, options, site);
}

NDArray normal(double mean, double std, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_normal, mean, std, shape, options, site);
}

NDArray uniform(const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return uniform(0, 1, shape, options, site);
}

NDArray normal(const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return normal(0, 1, shape, options, site);
}

NDArray randint(
    std::int64_t low, std::int64_t high, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_randint, low, high, shape, options, site);
}

NDArray bernoulli(double p, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_bernoulli, p, 0.0, shape, options, site);
}

}  // namespace random
}  // namespace sluice
