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

template <class C>
Roi<C> region_of(const Operator& op, const RoiWalk<C>& walk, std::int64_t r) {
  const Roi<C> made = walk.region(r);
  require<IndexError>(made.image >= 0, [&] {
    return message(op.name, ": region ", r, " is of image ", walk.rois[r * 5], ", of ", walk.images);
  });
  return made;
}

// What one bin gives to a plane, a pixel at a time.
template <class C>
void spread(const Roi<C>& of, std::int64_t row, std::int64_t column, C dy, std::int64_t width, std::vector<C>& plane) {
  const C each = dy / of.count;
  const auto add = [&](std::int64_t y, std::int64_t x, C by) {
    if (by != 0)
      plane[static_cast<std::size_t>(y * width + x)] += by * each;
  };
  for (std::int64_t i = 0; i < of.y.points; ++i) {
    const RoiSample<C> y = of.y.sample(row, i);
    for (std::int64_t j = 0; j < of.x.points; ++j) {
      const RoiSample<C> x = of.x.sample(column, j);
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
        const Roi<C> of = region_of(call.op, walk, r);
        for (std::int64_t i = 0; i < walk.channels * bins; ++i)
          y.put(r * walk.channels * bins + i, walk.mean(x, of, i / bins, i % bins / walk.columns, i % walk.columns));
      }
    });
  });
}

void roi_samples_backward_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], call.outputs[0].shape);
    const FloatingArray<C> dy(call.inputs[0]), dx(call.outputs[0]);
    const std::int64_t size = walk.height * walk.width, bins = walk.rows * walk.columns;
    std::vector<Roi<C>> regions;
    for (std::int64_t r = 0; r < walk.regions; ++r)
      regions.push_back(region_of(call.op, walk, r));
    parallel_for(walk.images * walk.channels, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> sums(static_cast<std::size_t>(size));
      for (std::int64_t plane = begin; plane < end; ++plane) {
        std::fill(sums.begin(), sums.end(), C(0));
        for (std::int64_t r = 0; r < walk.regions; ++r) {
          const Roi<C>& of = regions[static_cast<std::size_t>(r)];
          for (std::int64_t i = 0; of.image == plane / walk.channels && i < bins; ++i) {
            const C head = dy[(r * walk.channels + plane % walk.channels) * bins + i];
            spread(of, i / walk.columns, i % walk.columns, head, walk.width, sums);
          }
        }
        for (std::int64_t i = 0; i < size; ++i)
          dx.put(plane * size + i, sums[static_cast<std::size_t>(i)]);
      }
    });
  });
}

}  // namespace sluice::detail
