#include <algorithm>
#include <type_traits>
#include <vector>

#include <sluice/engine/parallel.h>
#include <sluice/ndarray/detail/simd_casts.h>
#include <sluice/ndarray/element_size.h>
#include <sluice/operator/floating.h>
#include <sluice/operator/resize/planes.h>
#include <sluice/operator/simd/mix_rows.h>

namespace sluice::detail {
namespace {

constexpr std::int64_t k_grain = 4 * 1024;  // elements worth a thread

std::int64_t rows_worth_a_thread(std::int64_t columns) {
  return std::max<std::int64_t>(1, k_grain / std::max<std::int64_t>(1, columns));
}

/// The terms of all results side by side, as MixTable says. Where some have fewer than others, what is missing is no
/// place.
template <class C>
class ColumnTable {
 public:
  explicit ColumnTable(const Taps<C>& taps) : n_(taps.to) {
    constexpr std::int64_t k_group = simd::MixTable::k_group;
    pitch_ = (n_ + k_group - 1) / k_group * k_group;
    for (std::int64_t i = 0; i < n_; ++i)
      terms_ = std::max(terms_, taps.count(i));
    place_.resize(static_cast<std::size_t>(terms_ * pitch_));
    weight_.resize(place_.size());
    for (std::int64_t i = 0; i < n_; ++i) {
      for (std::int64_t k = 0; k < terms_; ++k) {
        const bool is_there = k < taps.count(i);
        place_[k * pitch_ + i] = is_there ? taps.place[taps.begin[i] + k] : -1;
        weight_[k * pitch_ + i] = is_there ? taps.weight[taps.begin[i] + k] : C{0};
      }
    }
  }

  void mix(const simd::MixRows* vectors, const C* row, C* to) const {
    if constexpr (std::is_same_v<C, float>) {
      if (vectors != nullptr)
        return vectors->along(row, {place_.data(), weight_.data(), terms_, pitch_, n_}, to);
    }
    for (std::int64_t i = 0; i < n_; ++i) {
      C sum = 0;
      for (std::int64_t at = i; at < terms_ * pitch_; at += pitch_) {
        const C term = weight_[at] * (place_[at] < 0 ? C{0} : row[place_[at]]);
        sum = at == i ? term : sum + term;
      }
      to[i] = sum;
    }
  }

 private:
  std::int64_t n_ = 0, terms_ = 0, pitch_ = 0;
  std::vector<std::int32_t> place_;
  std::vector<C> weight_;
};

/// Planes of T, each a weighted sum along both axes of another. Rows or columns come first, by what is less work: the
/// order follows from the shape alone.
template <class T>
class Mixing {
  using C = Compute<T>;
  static constexpr bool k_direct = std::is_same_v<T, C>;

 public:
  Mixing(const Taps<C>& rows, const Taps<C>& columns)
      : rows_(rows), columns_(columns), table_(columns), columns_first_(rows.from <= rows.to) {
    for (std::int64_t i = 0; i < rows.to; ++i) {
      const auto first = rows.place.begin() + rows.begin[i], end = rows.place.begin() + rows.begin[i + 1];
      if (first != end)
        slots_ = std::max<std::int64_t>(slots_, *std::max_element(first, end) - *std::min_element(first, end) + 1);
      most_ = std::max(most_, rows.count(i));
    }
  }
  void run(std::int64_t planes, const T* from, T* to) const {
    parallel_for(planes * rows_.to, rows_worth_a_thread(columns_.to), [&](std::int64_t begin, std::int64_t end) {
      Lines lines(*this);
      for (std::int64_t row = begin; row < end; ++row)
        lines.make(from + row / rows_.to * rows_.from * columns_.from, row, to + row * columns_.to);
    });
  }

 private:
  /// What one thread keeps beside the planes.
  class Lines {
   public:
    explicit Lines(const Mixing& of)
        : of_(of),
          kept_rows_(
              of.columns_first_ ? of.slots_
              : k_direct        ? 0
                                : of.most_),
          width_(of.columns_first_ ? of.columns_.to : of.columns_.from),
          kept_(static_cast<std::size_t>(kept_rows_ * width_)),
          held_(static_cast<std::size_t>(kept_rows_), -1),
          line_(static_cast<std::size_t>(of.columns_.from)),
          made_(k_direct ? 0 : static_cast<std::size_t>(of.columns_.to)),
          sources_(static_cast<std::size_t>(of.most_)) {}

    // Row `row` of all planes, of this plane.
    void make(const T* plane, std::int64_t row, T* to) {
      C* sums;
      if constexpr (k_direct)
        sums = to;
      else
        sums = made_.data();
      const Taps<C>& rows = of_.rows_;
      const std::int64_t i = row % rows.to, first = rows.begin[i], count = rows.count(i);
      for (std::int64_t k = 0; k < count; ++k)
        sources_[k] = of_.columns_first_ ? along(plane, row / rows.to, rows.place[first + k])
                                         : as_computed(plane, rows.place[first + k], k);
      if (of_.columns_first_) {
        across(rows.weight.data() + first, count, of_.columns_.to, sums);
      } else {
        across(rows.weight.data() + first, count, of_.columns_.from, line_.data());
        of_.table_.mix(of_.vectors_, line_.data(), sums);
      }
      if constexpr (!k_direct)
        simd::convert(sums, to, of_.columns_.to);
    }

   private:
    // A row of the plane with its columns mixed: of a few neighbours those that were made stay.
    const C* along(const T* plane, std::int64_t number, std::int64_t row) {
      const std::int64_t slot = row % of_.slots_, name = number * of_.rows_.from + row;
      C* const to = kept_.data() + slot * width_;
      if (held_[slot] == name)
        return to;
      held_[slot] = name;
      const T* const from = plane + row * of_.columns_.from;
      if constexpr (k_direct) {
        of_.table_.mix(of_.vectors_, from, to);
      } else {
        simd::convert(from, line_.data(), of_.columns_.from);
        of_.table_.mix(of_.vectors_, line_.data(), to);
      }
      return to;
    }
    const C* as_computed(const T* plane, std::int64_t row, std::int64_t term) {
      const T* const from = plane + row * of_.columns_.from;
      if constexpr (k_direct) {
        return from;
      } else {
        C* const to = kept_.data() + term * width_;
        simd::convert(from, to, width_);
        return to;
      }
    }
    void across(const C* weight, std::int64_t count, std::int64_t n, C* to) const {
      if (count == 1 && weight[0] == 1) {
        std::copy_n(sources_[0], n, to);
        return;
      }
      if constexpr (std::is_same_v<C, float>) {
        if (of_.vectors_ != nullptr)
          return of_.vectors_->across(sources_.data(), weight, count, n, to);
      }
      for (std::int64_t i = 0; i < n; ++i) {
        C sum = count > 0 ? weight[0] * sources_[0][i] : C{0};
        for (std::int64_t k = 1; k < count; ++k)
          sum += weight[k] * sources_[k][i];
        to[i] = sum;
      }
    }

    const Mixing& of_;
    std::int64_t kept_rows_, width_;
    std::vector<C> kept_;
    std::vector<std::int64_t> held_;
    std::vector<C> line_, made_;
    std::vector<const C*> sources_;
  };

  const Taps<C>& rows_;
  const Taps<C>& columns_;
  ColumnTable<C> table_;
  bool columns_first_;
  std::int64_t slots_ = 1, most_ = 0;
  const simd::MixRows* vectors_ = simd::mix_rows();
};

// Elements as they are, of any type; a row that is the one before is copied.
template <class U>
void take_planes(std::int64_t planes, const Taps<float>& rows, const Taps<float>& columns, const U* from, U* to) {
  parallel_for(planes * rows.to, rows_worth_a_thread(columns.to), [&](std::int64_t begin, std::int64_t end) {
    const U* before = nullptr;
    for (std::int64_t row = begin; row < end; ++row) {
      const U* const source = from + (row / rows.to * rows.from + rows.place[row % rows.to]) * columns.from;
      U* const line = to + row * columns.to;
      if (source == before) {
        std::copy_n(line - columns.to, columns.to, line);
        continue;
      }
      for (std::int64_t i = 0; i < columns.to; ++i)
        line[i] = source[columns.place[i]];
      before = source;
    }
  });
}

}  // namespace

void resize_planes_cpu(const KernelCall& call) {
  const TensorView &x = call.inputs[0], &y = call.outputs[0];
  const auto& how = call.attributes.as<PlanesAttributes>();
  if (y.size == 0)
    return;
  const std::int64_t planes = x.shape[0] * x.shape[1];
  const auto axis = [&]<class C>(int i) { return taps_of<C>(how.rule(x.shape[i], y.shape[i])); };
  if (how.kind() == TapKind::nearest) {
    const Taps<float> rows = axis.operator()<float>(2), columns = axis.operator()<float>(3);
    return by_element_size(
        size_of(x.dtype), [&]<class U>() { take_planes(planes, rows, columns, x.as<const U>(), y.as<U>()); });
  }
  by_floating(x.dtype, [&]<class T>() {
    const auto rows = axis.template operator()<Compute<T>>(2), columns = axis.template operator()<Compute<T>>(3);
    Mixing<T>(rows, columns).run(planes, x.as<const T>(), y.as<T>());
  });
}

void resize_planes_backward_cpu(const KernelCall& call) {
  const TensorView &dy = call.inputs[0], &dx = call.outputs[0];
  const auto& how = call.attributes.as<PlanesAttributes>();
  if (dx.size == 0)
    return;
  by_floating(dy.dtype, [&]<class T>() {
    const auto axis = [&](int i) { return turned(taps_of<Compute<T>>(how.rule(dx.shape[i], dy.shape[i]))); };
    const auto rows = axis(2), columns = axis(3);
    Mixing<T>(rows, columns).run(dx.shape[0] * dx.shape[1], dy.as<const T>(), dx.as<T>());
  });
}

}  // namespace sluice::detail
