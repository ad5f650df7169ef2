#include <algorithm>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/floating_array.h>
#include <sluice/operator/vision/sample_walk.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_grain = 4 * 1024, k_points = 1024;

/// Calls f(plane, places of its image) for planes that one thread has, which it works out once an image.
template <class C, class F>
void each_plane(const SampleWalk<C>& walk, const F& f) {
  const std::int64_t worth = std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, walk.points));
  parallel_for(walk.images * walk.channels, worth, [&](std::int64_t begin, std::int64_t end) {
    std::vector<SamplePlace<C>> places(static_cast<std::size_t>(walk.points));
    std::int64_t held = -1;
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t image = plane / walk.channels;
      for (std::int32_t i = 0; held != image && i < walk.points; ++i)
        places[static_cast<std::size_t>(i)] = walk.place(image * walk.points + i);
      held = image;
      f(plane, places);
    }
  });
}

}  // namespace

void plane_samples_cpu(const KernelCall& call) {
  by_computing_type(call.outputs[0].dtype, [&]<class C>() {
    const auto walk = sample_walk<C>(call, call.inputs[0].shape, call.inputs[1], call.inputs[2]);
    const C* const x = call.inputs[0].as<const C>();
    C* const y = call.outputs[0].as<C>();
    each_plane(walk, [&](std::int64_t plane, const std::vector<SamplePlace<C>>& places) {
      C* to = y + plane * walk.points;
      for (const SamplePlace<C>& at : places)
        *to++ = sample_of(x + plane * walk.plane(), at, walk.width);
    });
  });
}

void plane_samples_backward_cpu(const KernelCall& call) {
  by_computing_type(call.outputs[0].dtype, [&]<class C>() {
    const auto walk = sample_walk<C>(call, call.outputs[0].shape, call.inputs[1], call.inputs[2]);
    const C* const dy = call.inputs[0].as<const C>();
    C* const dx = call.outputs[0].as<C>();
    each_plane(walk, [&](std::int64_t plane, const std::vector<SamplePlace<C>>& places) {
      C* const to = dx + plane * walk.plane();
      std::fill_n(to, walk.plane(), C(0));
      const C* head = dy + plane * walk.points;
      for (const SamplePlace<C>& at : places) {
        for (int i = 0; i < 4; ++i) {
          if (at.exists(i))
            to[at.at(i, walk.width)] += at.weight(i) * *head;
        }
        ++head;
      }
    });
  });
}

void plane_slopes_cpu(const KernelCall& call) {
  by_computing_type(call.outputs[0].dtype, [&]<class C>() {
    const auto walk = sample_walk<C>(call, call.inputs[1].shape, call.inputs[2], call.inputs[3]);
    const C *const dy = call.inputs[0].as<const C>(), *const x = call.inputs[1].as<const C>();
    C *const down = call.outputs[0].as<C>(), *const across = call.outputs[1].as<C>();
    const std::int64_t pieces = (walk.points + k_points - 1) / k_points;
    parallel_for(walk.images * pieces, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t piece = begin; piece < end; ++piece) {
        const std::int64_t image = piece / pieces, first = piece % pieces * k_points;
        const std::int64_t last = std::min<std::int64_t>(first + k_points, walk.points);
        for (std::int64_t i = first; i < last; ++i) {
          const SamplePlace<C> at = walk.place(image * walk.points + i);
          Slopes<C> slopes;
          for (std::int64_t plane = image * walk.channels; plane < (image + 1) * walk.channels; ++plane)
            slopes.add(dy[plane * walk.points + i], x + plane * walk.plane(), at, walk.width);
          down[image * walk.points + i] = slopes.down;
          across[image * walk.points + i] = slopes.across;
        }
      }
    });
  });
}

}  // namespace sluice::detail
