#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/vision/nms_walk.h>
#include <sluice/operator/vision/roi_walk.h>

namespace sluice::detail {

void nms_mask_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = nms_walk<C>(call);
    parallel_for(walk.batch, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t of = begin; of < end; ++of) {
        bool* const kept = walk.kept + of * walk.n;
        std::copy_n(walk.takes_part + of * walk.n, walk.n, kept);
        for (std::int64_t i = 0; i < walk.n; ++i) {
          for (std::int64_t j = i + 1; kept[i] && j < walk.n; ++j)
            kept[j] = kept[j] && !walk.ends(of, i, j);
        }
      }
    });
  });
}

namespace {

/// A region, and the samples of each bin that can lie in the image: a region may be far larger than that.
template <class C>
struct Region {
  Roi<C> of;
  std::vector<RoiPoints> rows, columns;
};

template <class C>
std::vector<RoiPoints> inside_of(const RoiAxis<C>& axis) {
  std::vector<RoiPoints> all;
  for (std::int64_t bin = 0; bin < axis.bins; ++bin)
    all.push_back(axis.inside(bin));
  return all;
}

template <class C>
Region<C> region_of(const Operator& op, const RoiWalk<C>& walk, std::int64_t r) {
  const Roi<C> made = walk.region(r);
  require<IndexError>(made.image >= 0, [&] {
    return message(op.name, ": region ", r, " is of image ", walk.rois[r * 5], ", of ", walk.images);
  });
  if (walk.channels == 0)  // of any number of bins
    return {made, {}, {}};
  return {made, inside_of(made.y), inside_of(made.x)};
}

// What one bin gives to a plane, a pixel at a time.
template <class C>
void spread(
    const Region<C>& region, std::size_t row, std::size_t column, C dy, std::int64_t width, std::vector<C>& plane) {
  const Roi<C>& of = region.of;
  const RoiPoints down = region.rows[row], across = region.columns[column];
  const C each = dy / of.count;
  const auto add = [&](std::int64_t y, std::int64_t x, C by) {
    if (by != 0)
      plane[static_cast<std::size_t>(y * width + x)] += by * each;
  };
  for (std::int64_t i = down.first; i < down.end; ++i) {
    const RoiSample<C> y = of.y.sample(static_cast<std::int64_t>(row), i);
    if (y.of_low == 0 && y.of_high == 0)
      continue;
    for (std::int64_t j = across.first; j < across.end; ++j) {
      const RoiSample<C> x = of.x.sample(static_cast<std::int64_t>(column), j);
      add(y.low, x.low, y.of_low * x.of_low);
      add(y.low, x.high, y.of_low * x.of_high);
      add(y.high, x.low, y.of_high * x.of_low);
      add(y.high, x.high, y.of_high * x.of_high);
    }
  }
}

}  // namespace

void roi_samples_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], call.inputs[0].shape);
    const FloatingArray<C> x(call.inputs[0]), y(call.outputs[0]);
    const std::int64_t bins = walk.rows * walk.columns;
    parallel_for(walk.regions, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const Region<C> region = region_of(call.op, walk, r);
        for (std::int64_t i = 0; i < walk.channels * bins; ++i) {
          const std::int64_t row = i % bins / walk.columns, column = i % walk.columns;
          const RoiPoints down = region.rows[static_cast<std::size_t>(row)];
          const RoiPoints across = region.columns[static_cast<std::size_t>(column)];
          y.put(r * walk.channels * bins + i, walk.mean(x, region.of, i / bins, row, column, down, across));
        }
      }
    });
  });
}

void roi_samples_backward_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], call.outputs[0].shape);
    const FloatingArray<C> dy(call.inputs[0]), dx(call.outputs[0]);
    const std::int64_t size = walk.height * walk.width, bins = walk.rows * walk.columns;
    std::vector<Region<C>> regions;
    for (std::int64_t r = 0; r < walk.regions; ++r)
      regions.push_back(region_of(call.op, walk, r));
    parallel_for(walk.images * walk.channels, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> sums(static_cast<std::size_t>(size));
      for (std::int64_t plane = begin; plane < end; ++plane) {
        std::fill(sums.begin(), sums.end(), C(0));
        for (std::int64_t r = 0; r < walk.regions; ++r) {
          const Region<C>& region = regions[static_cast<std::size_t>(r)];
          for (std::int64_t i = 0; region.of.image == plane / walk.channels && i < bins; ++i) {
            const C head = dy[(r * walk.channels + plane % walk.channels) * bins + i];
            const auto row = static_cast<std::size_t>(i / walk.columns);
            spread(region, row, static_cast<std::size_t>(i % walk.columns), head, walk.width, sums);
          }
        }
        for (std::int64_t i = 0; i < size; ++i)
          dx.put(plane * size + i, sums[static_cast<std::size_t>(i)]);
      }
    });
  });
}

}  // namespace sluice::detail
