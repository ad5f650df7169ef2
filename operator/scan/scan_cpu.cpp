#include <algorithm>
#include <type_traits>

#include <sluice/engine/error.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/scan/scan_cpu.h>
#include <sluice/operator/scan/states.h>

namespace sluice::detail {

namespace {

/// Sums of floats are kept in double: a row may be long.
template <class T>
using Wide = std::conditional_t<std::is_integral_v<T>, std::int64_t, double>;
/// What is compared in place of T.
template <class T>
using Compared = std::conditional_t<
    std::is_integral_v<T>,
    std::conditional_t<sizeof(T) == 8, std::int64_t, std::int32_t>,
    std::conditional_t<std::is_same_v<T, double>, double, float>>;

// The product of a piece alone need not fit where that of all up to there does: behind a 0 it would be NaN.
template <bool Product>
void totals(const KernelCall& call) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() {
    using Scan = TotalScan<T, Wide<T>, Product>;
    const Scan scan{call.inputs[0].as<const T>(), call.outputs[0].as<typename Scan::Result>()};
    scan_on_cpu(call, scan, !Product || std::is_integral_v<T>);
  });
}

void extremes(const KernelCall& call, bool largest) {
  by_dtype(call.inputs[0].dtype, [&]<class T>() {
    scan_on_cpu(
        call,
        ExtremeScan<T, Compared<T>>{
            call.inputs[0].as<const T>(), call.outputs[0].as<T>(), call.outputs[1].as<std::int64_t>(), largest});
  });
}

struct ThrowIndex {
  void operator()(std::int64_t place, std::int64_t n) const {
    throw IndexError(message("add_runs: index ", place, " is out of bounds for an axis of size ", n));
  }
};

}  // namespace

void cumsum_cpu(const KernelCall& call) {
  totals<false>(call);
}
void cumprod_cpu(const KernelCall& call) {
  totals<true>(call);
}
void cummax_cpu(const KernelCall& call) {
  extremes(call, true);
}
void cummin_cpu(const KernelCall& call) {
  extremes(call, false);
}

void linear_recurrence_cpu(const KernelCall& call) {
  by_floating(call.inputs[0].dtype, [&]<class T>() {
    scan_on_cpu(
        call,
        RecurrenceScan<T, Wide<T>>{
            call.inputs[0].as<const T>(), call.inputs[1].as<const T>(), call.outputs[0].as<T>()});
  });
}

void add_runs_cpu(const KernelCall& call) {
  const TensorView &places = call.inputs[0], &dx = call.outputs[0];
  if (dx.size == 0)
    return;
  const AxisLayout at = axis_layout(dx.shape, axis_of<ScanAttributes>(call.attributes));
  by_floating(dx.dtype, [&]<class T>() {
    std::fill_n(dx.as<T>(), dx.size, T{});
    scan_on_cpu(
        call,
        RunScan<T, Wide<T>, ThrowIndex>{
            places.data, places.dtype, call.inputs[1].as<const T>(), dx.as<T>(), at.n, at.inner, {}});
  });
}

}  // namespace sluice::detail
