// The functions that draw.
#include <cmath>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/random/distributions.h>
#include <sluice/operator/random/drawn.h>
#include <sluice/operator/random/random.h>

namespace sluice::random {

namespace {

using detail::DistributionAttributes;

struct Numbers {
  double first = 0, second = 1, third = 0, fourth = 0;
};

NDArray make(
    const Operator& op, const Numbers& n, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  const Attributes attributes = Attributes::of(
      DistributionAttributes{shape, options.dtype, options.device, n.first, n.second, n.third, n.fourth});
  if (!options.pinned)
    return invoke_one(op, {}, attributes, site);
  return detail::located(site, [&]() -> NDArray {
    const NDArray to = empty(shape, options);
    return invoke(op, {}, attributes, site, std::span(&to, 1))[0];
  });
}

NDArray sample(const Operator& op, const NDArray& parameters, DType dtype, SourceLocation site) {
  const autograd::PauseScope pause;
  return invoke_one(op, {parameters}, Attributes::of(detail::SampleAttributes{dtype}), site);
}

}  // namespace

NDArray exponential(double scale, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_exponential, {scale}, shape, options, site);
}

NDArray laplace(double loc, double scale, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_laplace, {loc, scale}, shape, options, site);
}

NDArray gumbel(double loc, double scale, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_gumbel, {loc, scale}, shape, options, site);
}

NDArray truncated_normal(
    double mean,
    double std,
    double low,
    double high,
    const Shape& shape,
    const ArrayOptions& options,
    SourceLocation site) {
  return detail::located(site, [&] {
    require<ValueError>(low < high, [&] {  // a call that rounded its ends may have two that are alike
      return message("random::truncated_normal: no ", options.dtype, " lies in [", low, ", ", high, "]");
    });
    return make(k_random_truncated_normal, {mean, std, low, high}, shape, options, site);
  });
}

NDArray gamma(double alpha, double scale, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_gamma, {alpha, scale}, shape, options, site);
}

NDArray gamma(const NDArray& alpha, DType dtype, SourceLocation site) {
  return detail::located(site, [&] { return sample(k_sample_gamma, alpha, dtype, site); });
}

NDArray beta(double a, double b, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_beta, {a, b}, shape, options, site);
}

NDArray poisson(double lam, const Shape& shape, const ArrayOptions& options, SourceLocation site) {
  return make(k_random_poisson, {lam}, shape, options, site);
}

NDArray poisson(const NDArray& lam, DType dtype, SourceLocation site) {
  return detail::located(site, [&] { return sample(k_sample_poisson, lam, dtype, site); });
}

NDArray categorical(const NDArray& weights, std::int64_t draws, SourceLocation site) {
  return detail::located(site, [&] {
    const autograd::PauseScope pause;
    const Attributes attributes = Attributes::of(detail::CategoricalAttributes{draws});
    return invoke_one(k_sample_categorical, {weights}, attributes, site);
  });
}

}  // namespace sluice::random
