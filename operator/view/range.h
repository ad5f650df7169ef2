#pragma once

#include <cstdint>

#include <sluice/ndarray/convert.h>
#include <sluice/operator/operator.h>
#include <sluice/operator/times_plus.h>

namespace sluice::detail {

/// arange: start, start + step, ... before stop, computed in float64 (NumPy).
struct RangeAttributes {
  double start = 0, stop = 0, step = 1;
  DType dtype = DType::float32;
  Device device = cpu();

  template <class V>
  void visit(V&& v) {
    v.field("start", start);
    v.field("stop", stop);
    v.field("step", step);
    v.field("dtype", dtype);
    v.field("device", device);
  }
};

/// Entry i, the same on CPU and GPU.
template <class T>
SLUICE_HD inline T range_entry(double start, double step, std::int64_t i) noexcept {
  return convert<T>(times_plus(static_cast<double>(i), step, start));
}

void range_gpu(const KernelCall& call);

}  // namespace sluice::detail
