#include <algorithm>
#include <cmath>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/create.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/gpu_kernel.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/update/attributes.h>
#include <sluice/operator/update/guard.h>
#include <sluice/operator/update/guard_kernels.h>
#include <sluice/operator/update/squares.h>

namespace sluice {

namespace detail {

GuardWork guard_work(const KernelCall& call) {
  const auto& a = call.attributes.as<GuardAttributes>();
  GuardWork work{a.max_norm, a.rescale_grad, a.skip_non_finite};
  work.arrays = call.inputs;
  if (a.numbers) {
    const TensorView& numbers = call.inputs.back();
    work.numbers = numbers.as<const double>() + numbers.size - 1;
    work.arrays = call.inputs.first(call.inputs.size() - 1);
  }
  return work;
}

}  // namespace detail

namespace {

using detail::GuardAttributes;
using detail::GuardSums;

template <class T>
GuardSums sums_of(const T* values, std::int64_t n) {
  constexpr std::int64_t k_block = 512;
  GuardSums sums{};
  detail::Compute<T> wide[k_block];
  for (std::int64_t at = 0; at < n; at += k_block) {
    const std::int64_t count = std::min(k_block, n - at);
    if constexpr (std::is_same_v<T, detail::Compute<T>>)
      std::copy_n(values + at, count, wide);
    else
      simd::convert(values + at, wide, count);
    sums.squares += detail::sum_of_squares(wide, count);
    for (std::int64_t i = 0; i < count; ++i)
      sums.strange += detail::is_strange(wide[i]) ? 1 : 0;
  }
  return sums;
}

void guard_cpu(const KernelCall& call) {
  const detail::GuardWork work = detail::guard_work(call);
  struct Part {
    const TensorView& array;
    std::int64_t begin;
  };
  std::vector<Part> parts;  // cut by shape, added up in their order
  for (const TensorView& array : work.arrays) {
    for (std::int64_t at = 0; at < array.size; at += detail::k_per_part)
      parts.push_back({array, at});
  }
  std::vector<GuardSums> sums(parts.size());
  parallel_for(std::ssize(parts), 1, [&](std::int64_t begin, std::int64_t end) {
    for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i) {
      const auto& [array, at] = parts[i];
      const std::int64_t count = std::min(detail::k_per_part, array.size - at);
      detail::by_floating(array.dtype, [&, &array = array, &at = at]<class T>() {
        sums[i] = sums_of(array.as<const T>() + at, count);
      });
    }
  });
  GuardSums all{};
  for (const GuardSums& one : sums)
    all = {all.squares + one.squares, all.strange + one.strange};
  detail::write_guard(work.settings(), all, call.outputs[0].as<double>());
}

Specs infer_guard(const Operator& op, std::span<const ArraySpec> inputs, const Attributes& attributes) {
  const auto& a = attributes.as<GuardAttributes>();
  require<ValueError>(!std::isnan(a.max_norm) && !std::isnan(a.rescale_grad), [&] {
    return message(op.name, ": a norm of ", a.max_norm, " at most, gradients times ", a.rescale_grad);
  });
  require<ValueError>(!inputs.empty(), [&] { return message(op.name, ": there are no arrays"); });
  for (std::size_t i = 0; i < inputs.size(); ++i)
    require<DTypeError>(is_floating(inputs[i].dtype), [&] {
      return message(op.name, ": array ", i, " is ", inputs[i].dtype, ", not of a floating type");
    });
  require<DTypeError>(!a.numbers || inputs.back().dtype == float64, [&] {
    return message(op.name, ": numbers are float64, not ", inputs.back().dtype);
  });
  require<ShapeError>(!a.numbers || inputs.back().shape.size() > 0, [&] {
    return message(op.name, ": numbers of shape ", inputs.back().shape, " hold no rescale_grad");
  });
  return {{{3}, float64, inputs[0].device}};
}

}  // namespace

constinit const Operator detail::k_gradient_guard = {
    .name = "gradient_guard",
    .inputs = -1,
    .attributes = &attribute_type<GuardAttributes>,
    .infer = infer_guard,
    .kernels = {on_cpu(guard_cpu), on_gpu(SLUICE_GPU_KERNEL(detail::guard_gpu))},
};

NDArray gradient_guard(
    std::span<const NDArray> grads, const GuardOptions& options, const NDArray& to, SourceLocation site) {
  return detail::located(site, [&] {
    std::vector<NDArray> inputs(grads.begin(), grads.end());
    const bool numbers = options.numbers.defined();
    if (numbers)
      inputs.push_back(options.numbers);
    const Attributes attributes = Attributes::of(
        GuardAttributes{options.max_norm, numbers ? 1 : options.rescale_grad, options.skip_non_finite, numbers});
    if (!to.defined())
      return invoke(detail::k_gradient_guard, inputs, attributes, site)[0];
    return invoke(detail::k_gradient_guard, inputs, attributes, site, {&to, 1})[0];
  });
}

NDArray global_norm(std::span<const NDArray> arrays, SourceLocation site) {
  if (arrays.empty())
    return zeros({}, {.dtype = float64}, site);
  return gradient_guard(arrays, {}, {}, site)[0];
}

}  // namespace sluice
