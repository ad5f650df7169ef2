// The gradient of a product on the CPU: of each row the product of all factors, as a number near 1 and a power of two,
// which no magnitude leaves, divided by each of them.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/reduce/factors.h>
#include <sluice/operator/reduce/plan.h>
#include <sluice/operator/reduce/product_gradient.h>

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
