// A sample's weights are products of one an axis: what a bin is of the pixels of its columns is worked out once a row
// of pixels, and then serves all bins that have of that row. Some channels go together, side by side, so that a weight
// serves them all.
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/operator/vision/roi_walk.h>

namespace sluice::detail {

namespace {

constexpr std::int64_t k_lanes = 8;  // channels that go together
constexpr std::int64_t k_tile = 16;  // bins an axis that go together: what is held does not grow with their number

template <class C>
using Lanes = std::array<C, k_lanes>;

/// What a pixel of an axis weighs in a bin, which counts from the first of its tile.
template <class C>
struct Share {
  std::int64_t pixel, bin;
  C weight;
};

/// By pixel, then by bin.
template <class C>
using Shares = std::vector<Share<C>>;

// Pixels that samples touch with a weight of 0 are among them: an infinite one there makes NaN on a GPU too.
template <class C>
void add_shares(const RoiAxis<C>& axis, std::int64_t bin, std::int64_t in_tile, Shares<C>& shares) {
  const std::size_t first = shares.size();
  const auto add = [&](std::int64_t pixel, C weight) {
    // Points go along the axis, one way or the other: what was touched by one before was so lately.
    for (std::size_t i = shares.size(); i > first && i + 3 > shares.size(); --i) {
      if (shares[i - 1].pixel == pixel) {
        shares[i - 1].weight += weight;
        return;
      }
    }
    shares.push_back({pixel, in_tile, weight});
  };
  const RoiPoints those = axis.inside(bin);
  for (std::int64_t point = those.first; point < those.end; ++point) {
    const RoiSample<C> at = axis.sample(bin, point);
    if (at.of_low == 0 && at.of_high == 0)
      continue;
    add(at.low, at.of_low);
    add(at.high, at.of_high);
  }
}

template <class C>
Shares<C> shares_of(const RoiAxis<C>& axis, std::int64_t tile) {
  Shares<C> shares;
  for (std::int64_t bin = tile * k_tile; bin < std::min(axis.bins, (tile + 1) * k_tile); ++bin)
    add_shares(axis, bin, bin - tile * k_tile, shares);
  std::stable_sort(shares.begin(), shares.end(), [](const auto& a, const auto& b) { return a.pixel < b.pixel; });
  return shares;
}

template <class C>
std::vector<Shares<C>> all_shares_of(const RoiAxis<C>& axis) {
  std::vector<Shares<C>> tiles;
  for (std::int64_t tile = 0; tile * k_tile < axis.bins; ++tile)
    tiles.push_back(shares_of(axis, tile));
  return tiles;
}

/// Calls f(first, end) for the shares of each pixel.
template <class C, class F>
void each_pixel(const Shares<C>& shares, const F& f) {
  for (std::size_t first = 0, end; first < shares.size(); first = end) {
    for (end = first + 1; end < shares.size() && shares[end].pixel == shares[first].pixel;)
      ++end;
    f(shares.data() + first, shares.data() + end);
  }
}

template <class C>
void add_times(Lanes<C>* to, C weight, const Lanes<C>* of, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t lane = 0; lane < k_lanes; ++lane)
      to[i][lane] += weight * of[i][lane];
  }
}

template <class C>
struct Region {
  Roi<C> of;
  std::vector<Shares<C>> rows, columns;  // a tile each
};

template <class C>
Region<C> region_of(const Operator& op, const RoiWalk<C>& walk, std::int64_t r) {
  const Roi<C> made = walk.region(r);
  require<IndexError>(made.image >= 0, [&] {
    return message(op.name, ": region ", r, " is of image ", walk.rois[r * 5], ", of ", walk.images);
  });
  if (walk.channels == 0)  // of any number of bins
    return {made, {}, {}};
  return {made, all_shares_of(made.y), all_shares_of(made.x)};
}

/// Some bins of some channels: of one region and up to k_tile bins an axis and k_lanes channels.
template <class C>
class Tile {
 public:
  Tile(const RoiWalk<C>& walk, std::int64_t group)
      : walk_(walk), from_(group * k_lanes), channels_(std::min(k_lanes, walk.channels - from_)) {}

  /// Calls f(row, column) of the tiles of a region, which it goes to.
  template <class F>
  void each_of(const Region<C>& region, const F& f) {
    for (std::size_t row = 0; row < region.rows.size(); ++row) {
      for (std::size_t column = 0; column < region.columns.size(); ++column) {
        row_ = static_cast<std::int64_t>(row) * k_tile;
        column_ = static_cast<std::int64_t>(column) * k_tile;
        rows_ = std::min(k_tile, walk_.rows - row_);
        columns_ = std::min(k_tile, walk_.columns - column_);
        f(region.rows[row], region.columns[column]);
      }
    }
  }

  void sum(const Shares<C>& rows, const Shares<C>& columns, std::int64_t image, const FloatingArray<C>& x) {
    const std::int64_t size = walk_.height * walk_.width, plane = (image * walk_.channels + from_) * size;
    std::fill_n(bins_.begin(), rows_ * columns_, Lanes<C>{});
    each_pixel(rows, [&](const Share<C>* row, const Share<C>* rows_end) {
      std::fill_n(line_.begin(), columns_, Lanes<C>{});
      each_pixel(columns, [&](const Share<C>* column, const Share<C>* columns_end) {
        const std::int64_t at = plane + row->pixel * walk_.width + column->pixel;
        Lanes<C> pixels{};
        for (std::int64_t c = 0; c < channels_; ++c)
          pixels[c] = x[at + c * size];
        for (; column != columns_end; ++column)
          add_times(&line_[column->bin], column->weight, &pixels, 1);
      });
      for (; row != rows_end; ++row)
        add_times(&bins_[row->bin * columns_], row->weight, line_.data(), columns_);
    });
  }

  /// Adds what the bins give to their pixels; `planes` are those of the channels.
  void spread(const Shares<C>& rows, const Shares<C>& columns, C* planes) {
    const std::int64_t size = walk_.height * walk_.width;
    each_pixel(rows, [&](const Share<C>* row, const Share<C>* rows_end) {
      C* const to = planes + row->pixel * walk_.width;
      std::fill_n(line_.begin(), columns_, Lanes<C>{});
      for (; row != rows_end; ++row) {
        if (row->weight != 0)
          add_times(line_.data(), row->weight, &bins_[row->bin * columns_], columns_);
      }
      each_pixel(columns, [&](const Share<C>* column, const Share<C>* columns_end) {
        Lanes<C> sums{};
        const std::int64_t pixel = column->pixel;
        for (; column != columns_end; ++column) {
          if (column->weight != 0)
            add_times(&sums, column->weight, &line_[column->bin], 1);
        }
        for (std::int64_t c = 0; c < channels_; ++c)
          to[c * size + pixel] += sums[c];
      });
    });
  }

  void write(std::int64_t r, C count, const FloatingArray<C>& y) const {
    each_bin(r, [&](std::int64_t at, std::int64_t bin, std::int64_t c) { y.put(at, bins_[bin][c] / count); });
  }
  void read(std::int64_t r, C count, const FloatingArray<C>& dy) {
    each_bin(r, [&](std::int64_t at, std::int64_t bin, std::int64_t c) { bins_[bin][c] = dy[at] / count; });
  }

 private:
  template <class F>
  void each_bin(std::int64_t r, const F& f) const {
    for (std::int64_t c = 0; c < channels_; ++c) {
      for (std::int64_t row = 0; row < rows_; ++row) {
        const std::int64_t of = (r * walk_.channels + from_ + c) * walk_.rows + row_ + row;
        for (std::int64_t column = 0; column < columns_; ++column)
          f(of * walk_.columns + column_ + column, row * columns_ + column, c);
      }
    }
  }

  const RoiWalk<C>& walk_;
  std::int64_t from_, channels_;
  std::int64_t row_ = 0, column_ = 0, rows_ = 0, columns_ = 0;
  std::array<Lanes<C>, k_tile * k_tile> bins_{};
  std::array<Lanes<C>, k_tile> line_{};
};

template <class C>
std::int64_t groups_of(const RoiWalk<C>& walk) {
  return (walk.channels + k_lanes - 1) / k_lanes;
}

}  // namespace

void roi_samples_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], call.inputs[0].shape);
    const FloatingArray<C> x(call.inputs[0]), y(call.outputs[0]);
    const std::int64_t groups = groups_of(walk), each = std::max<std::int64_t>(1, groups);
    parallel_for(walk.regions * each, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin / each; r * each < end; ++r) {
        const Region<C> region = region_of(call.op, walk, r);
        for (std::int64_t unit = std::max(begin, r * each); unit < std::min(end, r * each + groups); ++unit) {
          Tile<C> tile(walk, unit - r * each);
          tile.each_of(region, [&](const Shares<C>& rows, const Shares<C>& columns) {
            tile.sum(rows, columns, region.of.image, x);
            tile.write(r, region.of.count, y);
          });
        }
      }
    });
  });
}

void roi_samples_backward_cpu(const KernelCall& call) {
  by_computing_type(call.inputs[0].dtype, [&]<class C>() {
    const auto walk = roi_walk<C>(call, call.inputs[1], call.outputs[0].shape);
    const FloatingArray<C> dy(call.inputs[0]), dx(call.outputs[0]);
    const std::int64_t size = walk.height * walk.width, groups = groups_of(walk);
    std::vector<Region<C>> regions;
    for (std::int64_t r = 0; r < walk.regions; ++r)
      regions.push_back(region_of(call.op, walk, r));
    // A group of planes is one thread's, and regions come in their order.
    parallel_for(walk.images * groups, 1, [&](std::int64_t begin, std::int64_t end) {
      std::vector<C> planes(static_cast<std::size_t>(std::min(k_lanes, walk.channels) * size));
      for (std::int64_t unit = begin; unit < end; ++unit) {
        const std::int64_t image = unit / groups, group = unit % groups;
        const std::int64_t first = (image * walk.channels + group * k_lanes) * size;
        std::fill(planes.begin(), planes.end(), C(0));
        Tile<C> tile(walk, group);
        for (std::int64_t r = 0; r < walk.regions; ++r) {
          const Region<C>& region = regions[static_cast<std::size_t>(r)];
          if (region.of.image != image)
            continue;
          tile.each_of(region, [&](const Shares<C>& rows, const Shares<C>& columns) {
            tile.read(r, region.of.count, dy);
            tile.spread(rows, columns, planes.data());
          });
        }
        const std::int64_t those = std::min(k_lanes, walk.channels - group * k_lanes) * size;
        for (std::int64_t i = 0; i < those; ++i)
          dx.put(first + i, planes[static_cast<std::size_t>(i)]);
      }
    });
  });
}

}  // namespace sluice::detail
