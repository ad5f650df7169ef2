// Places and weights are worked out once for some points of an image and serve all its channels.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_turn.h>
#include <sluice/ndarray/dtype.h>
#include <sluice/operator/simd/mix_rows.h>
#include <sluice/operator/vision/samples.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_points = 1024;  // whose tables a near cache holds
constexpr std::int64_t k_worth_a_thread = 4096;
constexpr int k_corners = 4;

/// Pixels of a row or a column, one beside each of some points: which, -1 where there is none, and what it weighs, 0
/// where there is none.
template <class T>
struct Side {
  std::array<std::int32_t, k_points> index;
  std::array<T, k_points> weight;
};

/// Above all pixels, which are compared as whole numbers: not each number of pixels is a float.
template <class T>
constexpr T k_beyond_planes = T{1 << 30};

template <class T>
void look_beside(const T* place, std::int64_t n, std::int32_t extent, Side<T>& low, Side<T>& high) {
  for (std::int64_t i = 0; i < n; ++i) {
    const bool is_near = place[i] >= -1 && place[i] < k_beyond_planes<T>;  // no NaN is
    const T at = is_near ? place[i] : T{0};
    const auto whole = static_cast<std::int32_t>(at);
    const std::int32_t below = whole - (static_cast<T>(whole) > at ? 1 : 0);
    const T part = at - static_cast<T>(below);
    const bool has_low = is_near && below >= 0 && below < extent, has_high = is_near && below + 1 < extent;
    low.index[i] = has_low ? below : -1;
    low.weight[i] = has_low ? 1 - part : T{0};
    high.index[i] = has_high ? below + 1 : -1;
    high.weight[i] = has_high ? part : T{0};
  }
}

template <class T>
void look_nearest(const T* place, std::int64_t n, std::int32_t extent, Side<T>& nearest) {
  for (std::int64_t i = 0; i < n; ++i) {
    const T at = std::nearbyint(place[i]);
    const bool is_near = at >= 0 && at < k_beyond_planes<T>;
    const auto whole = static_cast<std::int32_t>(is_near ? at : T{0});
    const bool exists = is_near && whole < extent;
    nearest.index[i] = exists ? whole : -1;
    nearest.weight[i] = exists ? T{1} : T{0};
  }
}

/// The pixels that points are mixed of: corner k of point i stands at k * k_points + i.
template <class T>
class Corners {
 public:
  Corners(const TensorView& rows, const TensorView& columns, const Shape& x, bool nearest)
      : count(nearest ? 1 : k_corners),
        place(static_cast<std::size_t>(count * k_points)),
        weight(place.size()),
        row(count == 1 ? 1 : 2),
        column(row.size()),
        rows_(rows.as<const T>()),
        columns_(columns.as<const T>()),
        height_(static_cast<std::int32_t>(x[2])),
        width_(static_cast<std::int32_t>(x[3])) {}

  /// Points [first, first + n) of all images, n <= k_points.
  void look_at(std::int64_t first, std::int64_t n) {
    if (count == 1) {
      look_nearest(rows_ + first, n, height_, row[0]);
      look_nearest(columns_ + first, n, width_, column[0]);
    } else {
      look_beside(rows_ + first, n, height_, row[0], row[1]);
      look_beside(columns_ + first, n, width_, column[0], column[1]);
    }
    for (int k = 0; k < count; ++k) {
      const Side<T>&down = row[k / 2], &right = column[k % 2];
      for (std::int64_t i = 0; i < n; ++i) {
        const bool is_none = (down.index[i] | right.index[i]) < 0;
        place[k * k_points + i] = is_none ? -1 : down.index[i] * width_ + right.index[i];
        weight[k * k_points + i] = down.weight[i] * right.weight[i];
      }
      std::fill_n(place.begin() + k * k_points + n, (n + k_group - 1) / k_group * k_group - n, -1);
    }
  }

  int count;
  std::vector<std::int32_t> place;  // of the plane, -1 where it lies beyond
  std::vector<T> weight;
  std::vector<Side<T>> row, column;

 private:
  static constexpr std::int64_t k_group = simd::MixTable::k_group;

  const T* rows_;
  const T* columns_;
  std::int32_t height_, width_;
};

/// Images, and the stretches of points and the groups of channels that they are cut into, by shape alone.
struct Cut {
  std::int64_t images, channels, pixels, points, stretches;

  Cut(const Shape& x, const Shape& at)
      : images(x[0]),
        channels(x[1]),
        pixels(x[2] * x[3]),
        points(at[1] * at[2]),
        stretches((points + k_points - 1) / k_points) {}
  std::int64_t first(std::int64_t stretch) const { return stretch * k_points; }
  std::int64_t length(std::int64_t stretch) const { return std::min(k_points, points - first(stretch)); }
};

std::int64_t grain_of(std::int64_t elements) {
  return std::max<std::int64_t>(1, k_worth_a_thread / std::max<std::int64_t>(1, elements));
}

template <class T>
void mix(const Corners<T>& of, const T* plane, std::int64_t n, T* to) {
  if constexpr (std::is_same_v<T, float>) {
    if (const simd::MixRows* rows = simd::mix_rows())
      return rows->along(plane, {of.place.data(), of.weight.data(), of.count, k_points, n}, to);
  }
  for (std::int64_t i = 0; i < n; ++i) {
    T sum = 0;
    for (int k = 0; k < of.count; ++k) {
      const std::int32_t place = of.place[k * k_points + i];
      sum += of.weight[k * k_points + i] * (place < 0 ? T{0} : plane[place]);
    }
    to[i] = sum;
  }
}

/// Samples of groups of channels whose pixels are turned to be neighbours first: a pixel is then read once for all of
/// them. Sums have the order, so the bits, of planes that are sampled one by one.
class TurnedSamples {
 public:
  static constexpr std::int64_t k_channels = simd::MixRows::k_width;

  explicit TurnedSamples(const Cut& cut) : cut_(cut), groups_((cut.channels + k_channels - 1) / k_channels) {}

  /// By shape alone: pixels are turned for enough points, of enough channels, and all cores have something.
  bool are_worth_it() const {
    constexpr std::int64_t k_most_pixels = 1 << 16, k_enough_units = 4;
    return cut_.channels >= k_channels && cut_.pixels <= k_most_pixels && cut_.pixels <= 4 * cut_.points &&
           cut_.images * groups_ >= k_enough_units;
  }
  void run(const simd::MixRows& vectors, const KernelCall& call, bool nearest) const {
    const TensorView& x = call.inputs[0];
    parallel_for(cut_.images * groups_, 1, [&](std::int64_t begin, std::int64_t end) {
      Corners<float> corners(call.inputs[1], call.inputs[2], x.shape, nearest);
      // Lanes that no channel has stay 0, as the place behind the last pixel does.
      std::vector<float> pixels(static_cast<std::size_t>((cut_.pixels + 1) * k_channels));
      std::vector<float> made(static_cast<std::size_t>(k_points * k_channels));
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t image = unit / groups_, from = unit % groups_ * k_channels;
        const std::int64_t channels = std::min(k_channels, cut_.channels - from), plane = image * cut_.channels + from;
        if (channels < k_channels)
          std::fill(pixels.begin(), pixels.end(), 0.0F);
        turn(pixels.data(), k_channels, x.as<const float>() + plane * cut_.pixels, cut_.pixels, channels, cut_.pixels);
        float* const to = call.outputs[0].as<float>() + plane * cut_.points;
        for (std::int64_t stretch = 0; stretch < cut_.stretches; ++stretch) {
          const std::int64_t first = cut_.first(stretch), n = cut_.length(stretch);
          corners.look_at(image * cut_.points + first, n);
          const simd::MixTable table{corners.place.data(), corners.weight.data(), corners.count, k_points, n};
          vectors.beside(pixels.data(), static_cast<std::int32_t>(cut_.pixels), table, made.data());
          turn(to + first, cut_.points, made.data(), k_channels, n, channels);
        }
      }
    });
  }

 private:
  // to[a * to_step + i] = from[i * from_step + a]
  static void turn(
      float* to,
      std::int64_t to_step,
      const float* from,
      std::int64_t from_step,
      std::int64_t rows,
      std::int64_t columns) {
    auto* const target = reinterpret_cast<std::uint32_t*>(to);
    const auto* const source = reinterpret_cast<const std::uint32_t*>(from);
    simd::turn(target, to_step, source, from_step, rows, columns, false);
  }

  const Cut& cut_;
  std::int64_t groups_;
};

template <class T>
void sample(const KernelCall& call, bool nearest) {
  const TensorView &x = call.inputs[0], &rows = call.inputs[1];
  constexpr std::int64_t k_channels = 32;
  const Cut cut(x.shape, rows.shape);
  if constexpr (std::is_same_v<T, float>) {
    const simd::MixRows* const vectors = simd::mix_rows();
    if (const TurnedSamples turned(cut); vectors != nullptr && turned.are_worth_it())
      return turned.run(*vectors, call, nearest);
  }
  const std::int64_t groups = (cut.channels + k_channels - 1) / k_channels, each = cut.stretches * groups;
  const std::int64_t elements = std::min(cut.points, k_points) * std::min(cut.channels, k_channels);
  parallel_for(cut.images * each, grain_of(elements), [&](std::int64_t begin, std::int64_t end) {
    Corners<T> corners(rows, call.inputs[2], x.shape, nearest);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t image = unit / each, stretch = unit / groups % cut.stretches, group = unit % groups;
      const std::int64_t first = cut.first(stretch), n = cut.length(stretch);
      corners.look_at(image * cut.points + first, n);
      for (std::int64_t c = group * k_channels; c < std::min(cut.channels, (group + 1) * k_channels); ++c) {
        const std::int64_t plane = image * cut.channels + c;
        mix(corners, x.as<const T>() + plane * cut.pixels, n, call.outputs[0].as<T>() + plane * cut.points + first);
      }
    }
  });
}

// A plane is one thread's, and its points come in their order.
template <class T>
void add_back(const KernelCall& call, bool nearest) {
  const TensorView &dy = call.inputs[0], &rows = call.inputs[1], &dx = call.outputs[0];
  constexpr std::int64_t k_channels = 8;
  const Cut cut(dx.shape, rows.shape);
  const std::int64_t groups = (cut.channels + k_channels - 1) / k_channels;
  const std::int64_t elements = (cut.points + cut.pixels) * std::min(cut.channels, k_channels);
  parallel_for(cut.images * groups, grain_of(elements), [&](std::int64_t begin, std::int64_t end) {
    Corners<T> corners(rows, call.inputs[2], dx.shape, nearest);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t image = unit / groups, group = unit % groups, first_plane = image * cut.channels;
      const std::int64_t from = first_plane + group * k_channels;
      const std::int64_t to = first_plane + std::min(cut.channels, (group + 1) * k_channels);
      std::fill_n(dx.as<T>() + from * cut.pixels, (to - from) * cut.pixels, T{0});
      for (std::int64_t stretch = 0; stretch < cut.stretches; ++stretch) {
        const std::int64_t first = cut.first(stretch), n = cut.length(stretch);
        corners.look_at(image * cut.points + first, n);
        for (std::int64_t plane = from; plane < to; ++plane) {
          const T* const head = dy.as<const T>() + plane * cut.points + first;
          T* const sums = dx.as<T>() + plane * cut.pixels;
          for (std::int64_t i = 0; i < n; ++i) {
            for (int k = 0; k < corners.count; ++k) {
              if (const std::int32_t place = corners.place[k * k_points + i]; place >= 0)
                sums[place] += corners.weight[k * k_points + i] * head[i];
            }
          }
        }
      }
    }
  });
}

// Sums over all channels of the head times each corner, then what the corners' weights change by.
template <class T>
void slopes(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &x = call.inputs[1], &rows = call.inputs[2];
  const Cut cut(x.shape, rows.shape);
  const std::int64_t elements = std::min(cut.points, k_points) * std::max<std::int64_t>(1, cut.channels);
  parallel_for(cut.images * cut.stretches, grain_of(elements), [&](std::int64_t begin, std::int64_t end) {
    Corners<T> corners(rows, call.inputs[3], x.shape, false);
    std::vector<T> sums(static_cast<std::size_t>(k_corners * k_points));
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t image = unit / cut.stretches, stretch = unit % cut.stretches;
      const std::int64_t first = cut.first(stretch), n = cut.length(stretch), point = image * cut.points + first;
      corners.look_at(point, n);
      std::fill(sums.begin(), sums.end(), T{0});
      for (std::int64_t c = 0; c < cut.channels; ++c) {
        const std::int64_t plane = image * cut.channels + c;
        const T* const pixels = x.as<const T>() + plane * cut.pixels;
        const T* const head = dy.as<const T>() + plane * cut.points + first;
        for (int k = 0; k < k_corners; ++k) {
          const std::int32_t* const place = corners.place.data() + k * k_points;
          for (std::int64_t i = 0; i < n; ++i)
            sums[k * k_points + i] += head[i] * (place[i] < 0 ? T{0} : pixels[place[i]]);
        }
      }
      for (std::int64_t i = 0; i < n; ++i) {
        std::array<T, k_corners> of_rows, of_columns;
        for (int k = 0; k < k_corners; ++k) {
          of_rows[k] = sums[k * k_points + i] * corners.column[k % 2].weight[i];
          of_columns[k] = sums[k * k_points + i] * corners.row[k / 2].weight[i];
        }
        call.outputs[0].as<T>()[point + i] = (of_rows[2] + of_rows[3]) - (of_rows[0] + of_rows[1]);
        call.outputs[1].as<T>()[point + i] = (of_columns[1] + of_columns[3]) - (of_columns[0] + of_columns[2]);
      }
    }
  });
}

// Calls f.operator()<T>().
template <class F>
void by_wide(DType dtype, const F& f) {
  if (dtype == DType::float64)
    f.template operator()<double>();
  else
    f.template operator()<float>();
}

}  // namespace

void plane_samples_cpu(const KernelCall& call) {
  const bool nearest = call.attributes.as<SamplesAttributes>().nearest;
  by_wide(call.inputs[0].dtype, [&]<class T>() { sample<T>(call, nearest); });
}

void plane_samples_backward_cpu(const KernelCall& call) {
  const bool nearest = call.attributes.as<SamplesAttributes>().nearest;
  by_wide(call.inputs[0].dtype, [&]<class T>() { add_back<T>(call, nearest); });
}

void plane_slopes_cpu(const KernelCall& call) {
  by_wide(call.inputs[0].dtype, [&]<class T>() { slopes<T>(call); });
}

}  // namespace sluice::detail
