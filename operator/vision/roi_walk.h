#pragma once

// Bilinear samples of regions, the same on CPU and GPU. A sample's weights are products of one an axis, so that a bin's
// are too.
#include <cmath>
#include <cstdint>

#include <sluice/operator/floating_array.h>
#include <sluice/operator/operator.h>

namespace sluice::detail {

struct RoiAttributes {
  Shape pooled_size{7, 7};
  double spatial_scale = 1;
  std::int64_t sampling_ratio = 0;
  bool aligned = false;

  template <class V>
  void visit(V&& v) {
    v.field("pooled_size", pooled_size);
    v.field("spatial_scale", spatial_scale);
    v.field("sampling_ratio", sampling_ratio);
    v.field("aligned", aligned);
  }
};

/// A sample between two pixels of an axis; weights of 0 beyond the image. On the last pixel it is half of it twice:
/// with a weight of 0 an infinite pixel would make NaN.
template <class C>
struct RoiSample {
  std::int64_t low = 0, high = 0;
  C of_low = 0, of_high = 0;
};

/// Some of a bin's points along an axis.
struct RoiPoints {
  std::int64_t first = 0, end = 0;
};

/// A region along one axis.
template <class C>
struct RoiAxis {
  C start = 0, bin = 0;
  std::int64_t points = 0;  // a bin
  std::int64_t bins = 0, extent = 0;

  SLUICE_HD C place(std::int64_t of, std::int64_t point) const {
    return start + static_cast<C>(of) * bin + (static_cast<C>(point) + C(0.5)) * bin / static_cast<C>(points);
  }
  SLUICE_HD RoiSample<C> sample(std::int64_t of, std::int64_t point) const {
    C at = place(of, point);
    if (!(at >= -1 && at <= static_cast<C>(extent)))
      return {};
    at = at > 0 ? at : C(0);
    RoiSample<C> made;
    made.low = static_cast<std::int64_t>(at);
    if (made.low >= extent - 1) {
      made.low = made.high = extent - 1;
      made.of_low = made.of_high = C(0.5);
      return made;
    }
    made.high = made.low + 1;
    made.of_high = at - static_cast<C>(made.low);
    made.of_low = 1 - made.of_high;
    return made;
  }
  /// Those of a bin's points that can lie in the image: places grow with points, unless the region is inside out.
  SLUICE_HD RoiPoints inside(std::int64_t of) const {
    const auto begun = [&](std::int64_t point) { return place(of, point) >= -1; };
    const auto past = [&](std::int64_t point) { return !(place(of, point) <= static_cast<C>(extent)); };
    if (points == 0 || !(bin > 0) || (begun(0) && !past(points - 1)))
      return {0, points};
    const auto first_where = [&](std::int64_t from, const auto& holds) {
      std::int64_t to = points;
      while (from < to) {
        const std::int64_t middle = from + (to - from) / 2;
        if (holds(middle))
          to = middle;
        else
          from = middle + 1;
      }
      return to;
    };
    const std::int64_t first = first_where(0, begun);
    return {first, first_where(first, past)};
  }
  /// What a pixel weighs in a bin.
  SLUICE_HD C weight(std::int64_t of, std::int64_t pixel) const {
    C sum = 0;
    const RoiPoints those = inside(of);
    for (std::int64_t point = those.first; point < those.end; ++point) {
      const RoiSample<C> at = sample(of, point);
      sum += (at.low == pixel ? at.of_low : C(0)) + (at.high == pixel ? at.of_high : C(0));
    }
    return sum;
  }
  /// The bins from which on, and up to which, a pixel may weigh anything.
  SLUICE_HD std::int64_t bin_near(C place, std::int64_t beside) const {
    const C of = (place - start) / bin + static_cast<C>(beside);
    return of > 0 ? (of < static_cast<C>(bins) ? static_cast<std::int64_t>(of) : bins) : 0;
  }
  SLUICE_HD std::int64_t first_bin(std::int64_t pixel) const {
    return bin > 0 ? bin_near(static_cast<C>(pixel) - 1, -1) : 0;
  }
  SLUICE_HD std::int64_t last_bin(std::int64_t pixel) const {
    return bin > 0 ? bin_near(static_cast<C>(pixel == extent - 1 ? extent : pixel + 1), 2) : bins;
  }
};

template <class C>
struct Roi {
  std::int64_t image = -1;  // below 0: none
  RoiAxis<C> y, x;
  C count = 1;  // of samples
};

template <class C>
struct RoiWalk {
  const C* rois;
  std::int64_t regions, images, channels, height, width, rows, columns, ratio;
  C scale, offset;

  SLUICE_HD RoiAxis<C> axis(C begin, C end, std::int64_t bins, std::int64_t extent) const {
    RoiAxis<C> made;
    made.start = begin * scale - offset;
    C length = end * scale - offset - made.start;
    if (offset == 0 && length < 1)
      length = 1;
    made.bins = bins;
    made.extent = extent;
    made.bin = length / static_cast<C>(bins);
    constexpr std::int64_t k_most = 1 << 20;
    made.points = ratio > 0           ? ratio
                  : !(made.bin > 0)   ? 0
                  : made.bin > k_most ? k_most
                                      : static_cast<std::int64_t>(std::ceil(made.bin));
    return made;
  }
  SLUICE_HD Roi<C> region(std::int64_t r) const {
    const C* const of = rois + r * 5;
    Roi<C> made;
    if (of[0] >= 0 && of[0] < static_cast<C>(images))
      made.image = static_cast<std::int64_t>(of[0]);
    made.y = axis(of[2], of[4], rows, height);
    made.x = axis(of[1], of[3], columns, width);
    const std::int64_t all = made.y.points * made.x.points;
    made.count = static_cast<C>(all > 1 ? all : 1);
    return made;
  }

  /// Of one bin of one channel.
  SLUICE_HD C
  mean(const FloatingArray<C>& x, const Roi<C>& of, std::int64_t c, std::int64_t row, std::int64_t column) const {
    return mean(x, of, c, row, column, of.y.inside(row), of.x.inside(column));
  }
  /// Of these samples alone, the others being outside.
  SLUICE_HD C mean(
      const FloatingArray<C>& x,
      const Roi<C>& of,
      std::int64_t c,
      std::int64_t row,
      std::int64_t column,
      RoiPoints down,
      RoiPoints across) const {
    const std::int64_t plane = (of.image * channels + c) * height * width;
    C sum = 0;
    for (std::int64_t i = down.first; i < down.end; ++i) {
      const RoiSample<C> y = of.y.sample(row, i);
      if (y.of_low == 0 && y.of_high == 0)
        continue;
      const std::int64_t low = plane + y.low * width, high = plane + y.high * width;
      for (std::int64_t j = across.first; j < across.end; ++j) {
        const RoiSample<C> at = of.x.sample(column, j);
        if (at.of_low == 0 && at.of_high == 0)
          continue;
        sum += y.of_low * (at.of_low * x[low + at.low] + at.of_high * x[low + at.high]) +
               y.of_high * (at.of_low * x[high + at.low] + at.of_high * x[high + at.high]);
      }
    }
    return sum / of.count;
  }
};

template <class C>
RoiWalk<C> roi_walk(const KernelCall& call, const TensorView& rois, const Shape& x) {
  const auto& how = call.attributes.as<RoiAttributes>();
  return {
      rois.as<const C>(),
      rois.shape[0],
      x[0],
      x[1],
      x[2],
      x[3],
      how.pooled_size[0],
      how.pooled_size[1],
      how.sampling_ratio,
      static_cast<C>(how.spatial_scale),
      how.aligned ? C(0.5) : C(0)};
}

// x, rois -> means
void roi_samples_cpu(const KernelCall& call);
void roi_samples_gpu(const KernelCall& call);
// dy, rois, x (shape alone) -> dx
void roi_samples_backward_cpu(const KernelCall& call);
void roi_samples_backward_gpu(const KernelCall& call);

}  // namespace sluice::detail
