#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include <sluice/ndarray/half.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/times_plus.h>

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

/// The bins of a histogram, the same numbers on CPU and GPU.
struct EqualBins {
  double low, high, beyond;
  double step;   // from edge to edge, where the whole range is a number
  double scale;  // bins a unit of half a number, about
  std::int64_t bins;
  bool fits;

  explicit EqualBins(const HistogramAttributes& a)
      : low(a.low),
        high(a.high),
        beyond(a.beyond()),
        step((a.high - a.low) / static_cast<double>(a.bins)),
        scale(static_cast<double>(a.bins) / (a.high / 2 - a.low / 2)),
        bins(a.bins),
        fits(a.fits()) {}

  /// The lower edge of a bin.
  SLUICE_HD double edge(std::int64_t bin) const {
    const auto at = static_cast<double>(bin);
    if (fits)
      return times_plus(at, step, low);
    const double part = at / static_cast<double>(bins);
    return times_plus(1 - part, low, part * high);
  }
  /// Where the bin of x should be, which rounding may make a neighbour; -1 where there is none.
  SLUICE_HD std::int64_t guess(double x) const {
    if (!(x >= low && x < beyond))
      return -1;
    const double about = (x * 0.5 - low * 0.5) * scale;
    const auto last = static_cast<double>(bins - 1);
    return static_cast<std::int64_t>(about >= last ? last : about > 0 ? about : 0);
  }
  /// The bin of an x that has one, by halves.
  SLUICE_HD std::int64_t search(double x) const {
    std::int64_t begin = 0, end = bins;  // edge(begin) <= x
    while (end - begin > 1) {
      const std::int64_t middle = begin + (end - begin) / 2;
      (edge(middle) <= x ? begin : end) = middle;
    }
    return begin;
  }
  /// The bin of x, -1 where there is none.
  SLUICE_HD std::int64_t of(double x) const {
    const std::int64_t at = guess(x);
    return at < 0 || (edge(at) <= x && (at + 1 == bins || x < edge(at + 1))) ? at : search(x);
  }
};

void bincount_cpu(const KernelCall& call);
void bincount_gpu(const KernelCall& call);
// x of a floating type -> counts, edges
void histogram_cpu(const KernelCall& call);
void histogram_gpu(const KernelCall& call);

}  // namespace sluice::detail
