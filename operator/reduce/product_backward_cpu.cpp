// The gradient of a product on the CPU: of each row the product of all factors, as a number near 1 and a power of two,
// which no magnitude leaves, divided by each of them.
#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/reduce/factors.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/product_gradient.h>
#include <sluice/operator/simd/factor_rows.h>

namespace sluice::detail {

namespace {

/// The product of normal numbers, by lanes: so many of them are multiplied before they are brought near 1 again.
Scaled product_of(const double* x, std::int64_t n) noexcept {
  constexpr std::int64_t k_lanes = 8, k_levels = 512;
  Scaled lane[k_lanes], product;
  for (std::int64_t first = 0; first < n; first += k_lanes * k_levels) {
    const std::int64_t end = std::min(n, first + k_lanes * k_levels);
    std::int64_t i = first;
    for (; i + k_lanes <= end; i += k_lanes) {
      for (std::int64_t j = 0; j < k_lanes; ++j) {
        const Scaled factor(x[i + j]);
        lane[j].number *= factor.number;
        lane[j].exponent += factor.exponent;
      }
    }
    for (std::int64_t j = 0; i < end; ++i, ++j)
      lane[j] = Scaled::joined(lane[j], Scaled(x[i]));
    for (Scaled& each : lane)
      each = Scaled::joined(each, {});
  }
  for (const Scaled& each : lane)
    product = Scaled::joined(product, each);
  return product;
}

struct RowProduct : Factors {
  bool plain = true;  // of normal numbers alone

  /// `others`: room for as many.
  RowProduct(const double* x, std::int64_t n, std::vector<double>& others) {
    std::int64_t normal = 0;
    for (std::int64_t i = 0; i < n; ++i)
      normal += Scaled::is_normal(x[i]) ? 1 : 0;
    plain = normal == n;
    if (plain) {
      product = product_of(x, n);
      return;
    }
    others.clear();
    for (std::int64_t i = 0; i < n; ++i) {
      count(x[i]);
      const Scaled near = Scaled::of_factor(x[i]);
      others.push_back(near.number);
      product.exponent += near.exponent;
    }
    const Scaled numbers = product_of(others.data(), n);
    product = {numbers.number, numbers.exponent + product.exponent};
  }
};

/// The gradients of a call's rows, by one thread.
template <class T>
class RowGradients {
 public:
  RowGradients(const KernelCall& call, const ReducePlan& plan)
      : plan_(plan),
        terms_(plan.terms()),
        factors_(call.inputs[0].as<const T>()),
        dx_(call.outputs[0].as<T>()),
        vectors_(std::is_same_v<T, double> ? nullptr : simd::factor_rows()) {}

  void put(std::int64_t from, double dy) {
    if constexpr (!std::is_same_v<T, double>) {
      if (vectors_ != nullptr && put_in_vectors(from, dy))
        return;
    }
    row_.resize(static_cast<std::size_t>(terms_));
    each(from, [&](std::int64_t i, std::int64_t at) { row_[i] = number(factors_[at]); });
    const RowProduct product(row_.data(), terms_, room_);
    const auto write = [&](std::int64_t at, double value) { dx_[at] = static_cast<T>(static_cast<Compute<T>>(value)); };
    if (product.plain)
      each(from, [&](std::int64_t i, std::int64_t at) { write(at, product.plain_others(row_[i], dy)); });
    else
      each(from, [&](std::int64_t i, std::int64_t at) { write(at, product.others(row_[i], dy)); });
  }

 private:
  static double number(T value) { return static_cast<double>(static_cast<Compute<T>>(value)); }
  bool are_neighbours() const { return plan_.reduced.ndim == 1 && plan_.reduced.inner_stride(0) == 1; }
  template <class F>
  void each(std::int64_t from, const F& f) const {
    walk_runs(plan_.reduced, 0, terms_, [&](const StridedRun<1>& run) {
      for (std::int64_t i = 0; i < run.count; ++i)
        f(run.first + i, from + run.offset[0] + i * run.step[0]);
    });
  }
  // False where factors are none that vectors divide by.
  bool put_in_vectors(std::int64_t from, double dy) {
    const bool in_place = std::is_same_v<T, float> && are_neighbours();
    singles_.resize(in_place ? 0 : static_cast<std::size_t>(terms_));
    float* to = singles_.data();
    const float* x = to;
    if constexpr (std::is_same_v<T, float>) {
      if (in_place) {
        x = factors_ + from;
        to = dx_ + from;
      }
    }
    if (!in_place)
      each(from, [&](std::int64_t i, std::int64_t at) { singles_[i] = static_cast<float>(factors_[at]); });
    simd::ProductParts parts;
    if (!vectors_->product(x, terms_, &parts))
      return false;
    Scaled product;
    for (int k = 0; k < simd::ProductParts::k_parts; ++k)
      product = Scaled::joined(product, {parts.number[k], parts.exponent[k]});
    // In two steps, for a power of two need not fit where the product does; beyond these none does.
    const std::int64_t power = std::clamp<std::int64_t>(product.exponent, -2044, 2044);
    const double scale[2] = {Scaled::power_of_two(power / 2), Scaled::power_of_two(power - power / 2)};
    vectors_->others(x, terms_, product.number, scale, dy, to);
    if (!in_place)
      each(from, [&](std::int64_t i, std::int64_t at) { dx_[at] = static_cast<T>(singles_[i]); });
    return true;
  }

  const ReducePlan& plan_;
  std::int64_t terms_;
  const T* factors_;
  T* dx_;
  const simd::FactorRows* vectors_;
  std::vector<double> row_, room_;
  std::vector<float> singles_;
};

}  // namespace

void prod_backward_cpu(const KernelCall& call) {
  const TensorView& x = call.inputs[0];
  const ReducePlan plan = plan_reduce(x, call.attributes.as<TermsAttributes>().axes);
  if (x.size == 0)
    return;
  by_floating(x.dtype, [&]<class T>() {
    const T* const heads = call.inputs[1].as<const T>();
    const std::int64_t grain = std::max<std::int64_t>(1, 8192 / plan.terms());
    parallel_for(plan.outputs(), grain, [&](std::int64_t begin, std::int64_t end) {
      RowGradients<T> gradients(call, plan);
      for (std::int64_t o = begin; o < end; ++o)
        gradients.put(kept_offset(plan, o), static_cast<double>(static_cast<Compute<T>>(heads[o])));
    });
  });
}

}  // namespace sluice::detail
