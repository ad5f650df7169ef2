// The gradient of a product on the CPU: of each row the product of all factors, as a number near 1 and a power of two,
// which no magnitude leaves, divided by each of them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/product_gradient.h>

namespace sluice::detail {

namespace {

constexpr double k_infinity = std::numeric_limits<double>::infinity();
constexpr std::uint64_t k_exponent_bits = std::uint64_t{0x7ff} << 52, k_one_bits = std::uint64_t{1023} << 52;

/// number * 2^exponent, the number's magnitude at least 1 and less than 2.
struct Scaled {
  double number = 1;
  std::int64_t exponent = 0;
};

/// Of a normal number.
Scaled scaled(double x) noexcept {
  const auto bits = std::bit_cast<std::uint64_t>(x);
  const auto exponent = static_cast<std::int64_t>((bits & k_exponent_bits) >> 52) - 1023;
  return {std::bit_cast<double>((bits & ~k_exponent_bits) | k_one_bits), exponent};
}

double power_of_two(std::int64_t exponent) noexcept {
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent + 1023) << 52);
}

Scaled joined(const Scaled& a, const Scaled& b) noexcept {
  const Scaled product = scaled(a.number * b.number);
  return {product.number, product.exponent + a.exponent + b.exponent};
}

/// The product of normal numbers, by lanes: so many of them are multiplied before they are brought near 1 again.
Scaled product_of(const double* x, std::int64_t n) noexcept {
  constexpr std::int64_t k_lanes = 8, k_levels = 512;
  Scaled lane[k_lanes], product;
  for (std::int64_t first = 0; first < n; first += k_lanes * k_levels) {
    const std::int64_t end = std::min(n, first + k_lanes * k_levels);
    std::int64_t i = first;
    for (; i + k_lanes <= end; i += k_lanes) {
      for (std::int64_t j = 0; j < k_lanes; ++j) {
        const Scaled factor = scaled(x[i + j]);
        lane[j].number *= factor.number;
        lane[j].exponent += factor.exponent;
      }
    }
    for (std::int64_t j = 0; i < end; ++i, ++j)
      lane[j] = joined(lane[j], scaled(x[i]));
    for (Scaled& each : lane)
      each = joined(each, {});
  }
  for (const Scaled& each : lane)
    product = joined(product, each);
  return product;
}

/// What is known of a row: how many of its factors are zero and infinite, and the product of the others, signs of
/// infinities with them.
struct RowProduct {
  std::int64_t zeros = 0, infinities = 0;
  bool nan = false, plain = true;  // plain: of normal numbers alone
  Scaled product;

  /// `others`: room for as many.
  RowProduct(const double* x, std::int64_t n, std::vector<double>& others) {
    std::int64_t normal = 0;
    for (std::int64_t i = 0; i < n; ++i)
      normal += is_normal(x[i]) ? 1 : 0;
    plain = normal == n;
    if (plain) {
      product = product_of(x, n);
      return;
    }
    others.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      nan |= x[i] != x[i];
      zeros += x[i] == 0 ? 1 : 0;
      infinities += std::abs(x[i]) == k_infinity ? 1 : 0;
      const Scaled near = factor(x[i]);
      others.push_back(near.number);
      product.exponent += near.exponent;
    }
    const Scaled numbers = product_of(others.data(), n);
    product = {numbers.number, numbers.exponent + product.exponent};
  }

  /// The product of the other factors, times dy.
  double others(double x, double dy) const noexcept {
    if (nan)
      return dy * std::numeric_limits<double>::quiet_NaN();
    const Scaled own = factor(x);
    const bool beside_zero = zeros > (x == 0 ? 1 : 0), infinite = infinities > (std::abs(x) == k_infinity ? 1 : 0);
    const double number = product.number / own.number;
    if (beside_zero)
      return dy * (infinite ? std::numeric_limits<double>::quiet_NaN() : 0.0);
    return infinite ? dy * (number < 0 ? -k_infinity : k_infinity) : dy * times(number, own);
  }
  /// The same of a plain row.
  double plain_others(double x, double dy) const noexcept {
    const Scaled own = scaled(x);
    return dy * times(product.number / own.number, own);
  }

  static bool is_normal(double x) noexcept {
    return std::abs(x) >= std::numeric_limits<double>::min() && std::abs(x) <= std::numeric_limits<double>::max();
  }

 private:
  // In two steps, for a power of two need not fit where the product does.
  double times(double number, const Scaled& own) const noexcept {
    constexpr std::int64_t k_most = 2044;
    const std::int64_t exponent = std::clamp(product.exponent - own.exponent, -k_most, k_most), half = exponent / 2;
    return number * power_of_two(half) * power_of_two(exponent - half);
  }
  // A zero counts as 1, an infinity as its sign.
  static Scaled factor(double x) noexcept {
    if (is_normal(x))
      return scaled(x);
    if (x == 0 || x != x)
      return {};
    if (std::abs(x) == k_infinity)
      return {x < 0 ? -1.0 : 1.0, 0};
    const Scaled denormal = scaled(x * 0x1p54);
    return {denormal.number, denormal.exponent - 54};
  }
};

}  // namespace

void prod_backward_cpu(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const ReducePlan plan = plan_reduce(x, call.attributes.as<TermsAttributes>().axes);
  if (x.size == 0)
    return;
  by_floating(x.dtype, [&]<class T>() {
    const T *const factors = x.as<const T>(), *const heads = call.inputs[1].as<const T>();
    T* const dx = call.outputs[0].as<T>();
    const std::int64_t terms = plan.terms(), grain = std::max<std::int64_t>(1, 8192 / terms);
    const auto number = [](T value) { return static_cast<double>(static_cast<Compute<T>>(value)); };
    const auto each = [&](std::int64_t from, const auto& f) {
      walk_runs(plan.reduced, 0, terms, [&](const StridedRun<1>& run) {
        for (std::int64_t i = 0; i < run.count; ++i)
          f(run.first + i, from + run.offset[0] + i * run.step[0]);
      });
    };
    parallel_for(plan.outputs(), grain, [&](std::int64_t begin, std::int64_t end) {
      std::vector<double> row(static_cast<std::size_t>(terms)), room;
      for (std::int64_t o = begin; o < end; ++o) {
        const std::int64_t from = kept_offset(plan, o);
        const double dy = number(heads[o]);
        each(from, [&](std::int64_t i, std::int64_t at) { row[i] = number(factors[at]); });
        const RowProduct product(row.data(), terms, room);
        const auto put = [&](std::int64_t at, double value) {
          dx[at] = static_cast<T>(static_cast<Compute<T>>(value));
        };
        if (product.plain)
          each(from, [&](std::int64_t i, std::int64_t at) { put(at, product.plain_others(row[i], dy)); });
        else
          each(from, [&](std::int64_t i, std::int64_t at) { put(at, product.others(row[i], dy)); });
      }
    });
  });
}

}  // namespace sluice::detail
