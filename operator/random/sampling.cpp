// The functions that draw, and random orders.
#include <cmath>
#include <limits>

#include <sluice/ndarray/autograd.h>
#include <sluice/ndarray/detail/array_object.h>
#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/gather/gather.h>
#include <sluice/operator/invoke.h>
#include <sluice/operator/order/count.h>
#include <sluice/operator/order/order.h>
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

NDArray multinomial(std::int64_t n, const NDArray& weights, SourceLocation site) {
  return detail::located(site, [&] {
    const NDArray drawn = categorical(weights, n, site);
    const std::int64_t categories = weights.shape()[weights.ndim() - 1], rows = weights.size() / categories;
    const NDArray row = arange(0, static_cast<double>(rows), 1, {.dtype = int64, .device = weights.device()}, site);
    const NDArray flat = drawn.reshape({rows, n});
    const NDArray places = where(flat < 0, flat, flat + row.expand_dims(1) * categories);  // of each row its own
    return bincount(places, rows * categories, site).reshape(weights.shape());
  });
}

NDArray permutation(std::int64_t n, Device device, SourceLocation site) {
  return detail::located(site, [&] {
    require<ValueError>(n >= 0, [&] { return message("random::permutation: ", n, " is negative"); });
    require<UnsupportedError>(n < std::int64_t{1} << 32, [&] {
      return message("random::permutation: of ", n, " entries; fewer than 2^32 are possible");
    });
    constexpr std::int64_t k_least = std::numeric_limits<std::int64_t>::min();
    const NDArray keys =
        randint(k_least, std::numeric_limits<std::int64_t>::max(), {n}, {.dtype = int64, .device = device}, site);
    return argsort(keys, 0, false, site);
  });
}

NDArray permutation(const NDArray& x, SourceLocation site) {
  return detail::located(site, [&] {
    require<ShapeError>(detail::object_of(x, "random::permutation").shape.ndim() > 0, [] {
      return "random::permutation: an array of shape () has no entries to be ordered";
    });
    if (x.shape()[0] == 0)
      return x.copy();
    return take(x, permutation(x.shape()[0], x.device(), site), 0, IndexMode::raise, site);
  });
}

void shuffle(const NDArray& x, SourceLocation site) {
  detail::located(site, [&] {
    const NDArray ordered = permutation(x, site);
    NDArray(x).assign(ordered, site);
  });
}

NDArray choice(std::int64_t n, const Shape& shape, bool replace, Device device, SourceLocation site) {
  return detail::located(site, [&] {
    for (const std::int64_t extent : shape)
      require<ShapeError>(
          extent >= 0, [&] { return message("random::choice: shape ", shape, " has a negative extent"); });
    require<ValueError>(n >= 1 || (n == 0 && shape.size() == 0), [&] {
      return message("random::choice: of ", n, " there is none to choose");
    });
    require<ValueError>(replace || shape.size() <= n, [&] {
      return message("random::choice: ", shape.size(), " of ", n, " without replacement");
    });
    if (replace)
      return randint(0, std::max<std::int64_t>(n, 1), shape, {.dtype = int64, .device = device}, site);
    return permutation(n, device, site).slice(0, 0, shape.size()).copy().reshape(shape);
  });
}

}  // namespace sluice::random
