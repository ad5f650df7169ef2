#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <sluice/operator/operator.h>

namespace sluice::detail {

struct BincountAttributes {
  std::int64_t bins = 0;

  template <class V>
  void visit(V&& v) {
    v.field("bins", bins);
  }
};

struct HistogramAttributes {
  std::int64_t bins = 10;
  double low = 0;
  double high = 1;

  template <class V>
  void visit(V&& v) {
    v.field("bins", bins);
    v.field("low", low);
    v.field("high", high);
  }

  /// Is the whole range a number?
  bool fits() const noexcept { return std::isfinite(high - low); }
  /// What the last bin ends before: it holds its upper edge too.
  double beyond() const noexcept {
    constexpr double k_least = std::numeric_limits<double>::min(), k_infinity = std::numeric_limits<double>::infinity();
    return high == 0 ? k_least : std::nextafter(high, k_infinity);
  }
};

void bincount_cpu(const KernelCall& call);
void bincount_gpu(const KernelCall& call);
// x of a floating type -> counts, edges
void histogram_gpu(const KernelCall& call);

}  // namespace sluice::detail
