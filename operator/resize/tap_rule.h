#pragma once

// Which elements along an axis a resized one is mixed of, and what they weigh, the same on CPU and GPU.
#include <cmath>
#include <cstdint>

#include <sluice/ndarray/half.h>

namespace sluice::detail {

/// The last two are of all elements below a result, where there are fewer of those.
enum class TapKind : std::uint8_t { nearest, linear, cubic, wide_linear, wide_cubic };

/// Places [first, first + count) of one result; those beyond an end stand for the outermost element.
struct TapWindow {
  std::int64_t first = 0, count = 1;
  double part = 0;   // how far behind `first` the result lies, of cubic behind first + 1
  double total = 1;  // of the weights, which are divided by it
};

/// An axis of `in` elements, at least 1, resized to `out`: as resize2d says, each element itself where they are as
/// many. Places are counted in whole numbers but for wide kinds. Those of a result are no lower than those of the one
/// before.
struct TapRule {
  TapKind kind = TapKind::nearest;
  std::int64_t in = 1, out = 1;
  bool corners = false;

  SLUICE_HD bool is_wide() const { return kind == TapKind::wide_linear || kind == TapKind::wide_cubic; }

  /// Elements that a result may be mixed of, and results that an element may be in: no fewer than there are.
  SLUICE_HD std::int64_t most_of_result() const { return in == out ? 1 : least(span(), in); }
  SLUICE_HD std::int64_t most_of_element() const {
    const double apart = step();
    return in == out ? 1 : apart > 0 ? least(span() / apart, out) : out;
  }

  SLUICE_HD TapWindow window(std::int64_t i) const {
    if (in == out)
      return {i};
    if (kind == TapKind::nearest)
      return {i * in / out};
    if (is_wide())
      return wide_window(i);
    const std::int64_t unit = !corners ? 2 * out : out > 1 ? out - 1 : 1;
    std::int64_t steps = corners ? i * (in - 1) : i * 2 * in + in - out;
    if (kind == TapKind::linear && steps < 0)
      steps = 0;
    const std::int64_t lower = steps >= 0 ? steps / unit : -((unit - 1 - steps) / unit);
    const double part = static_cast<double>(steps - lower * unit) / static_cast<double>(unit);
    return kind == TapKind::linear ? TapWindow{lower, 2, part} : TapWindow{lower - 1, 4, part};
  }
  /// Of place first + k.
  template <class C>
  SLUICE_HD C weight(const TapWindow& of, std::int64_t k) const {
    if (kind == TapKind::nearest || in == out)
      return 1;
    if (is_wide())
      return static_cast<C>(of.total == 0 ? 0 : wide_weight(of.part, k) / of.total);
    const C part = static_cast<C>(of.part);
    if (kind == TapKind::linear)
      return k == 0 ? 1 - part : part;
    return static_cast<C>(
        spline(k <= 1 ? of.part + static_cast<double>(1 - k) : static_cast<double>(k - 1) - of.part, -0.75));
  }

  /// What is left of the places of a result inside the axis.
  SLUICE_HD std::int64_t begin(const TapWindow& of) const { return inside(of.first); }
  SLUICE_HD std::int64_t end(const TapWindow& of) const { return inside(of.first + of.count - 1) + 1; }
  /// Of element `place`, which may stand for some that are not there.
  template <class C>
  SLUICE_HD C weight_of_element(const TapWindow& of, std::int64_t place) const {
    const std::int64_t here = place - of.first;
    const std::int64_t from = place == 0 || here < 0 ? 0 : here,
                       to = place == in - 1 || here >= of.count ? of.count : here + 1;
    C sum = 0;
    for (std::int64_t k = from; k < to; ++k)
      sum += weight<C>(of, k);
    return sum;
  }
  /// The first result that element `place` may be in; with `behind` the first of those that lie wholly behind it.
  SLUICE_HD std::int64_t first_result(std::int64_t place, bool behind) const {
    std::int64_t low = 0, high = out;
    while (low < high) {
      const std::int64_t middle = low + (high - low) / 2;
      const TapWindow at = window(middle);
      if ((behind ? begin(at) : end(at) - 1) >= (behind ? place + 1 : place))
        high = middle;
      else
        low = middle + 1;
    }
    return low;
  }

 private:
  SLUICE_HD double step() const {
    if (corners)
      return out > 1 ? static_cast<double>(in - 1) / static_cast<double>(out - 1) : 0;
    return static_cast<double>(in) / static_cast<double>(out);
  }
  SLUICE_HD double stretch() const { return step() > 1 ? step() : 1; }
  /// How far from a result's middle the elements below it lie.
  SLUICE_HD double reach() const { return (kind == TapKind::wide_cubic ? 2 : 1) * stretch(); }
  /// Elements between the first and the last result that are mixed of one of them; of linear half an element more,
  /// where results before the first element stand at it and have the second one too, which weighs nothing.
  SLUICE_HD double span() const {
    if (is_wide())
      return 2 * reach();
    return kind == TapKind::nearest ? 1 : kind == TapKind::linear ? 2.5 : 4;
  }
  static SLUICE_HD std::int64_t least(double about, std::int64_t most) {
    return about + 2 < static_cast<double>(most) ? static_cast<std::int64_t>(about) + 2 : most;
  }
  SLUICE_HD std::int64_t inside(std::int64_t place) const { return place < 0 ? 0 : place < in ? place : in - 1; }

  /// Keys' spline.
  static SLUICE_HD double spline(double x, double a) {
    if (x <= 1)
      return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
  }
  /// Of the element k behind the first, the result's middle lying `part` behind that one's.
  SLUICE_HD double wide_weight(double part, std::int64_t k) const {
    const double apart = std::abs(static_cast<double>(k) - part) / stretch();
    return kind == TapKind::wide_cubic ? spline(apart, -0.5) : apart < 1 ? 1 - apart : 0;
  }
  SLUICE_HD TapWindow wide_window(std::int64_t i) const {
    const double middle = (static_cast<double>(i) + 0.5) * step(), about = reach();
    const double low = std::floor(middle - about + 0.5), high = std::floor(middle + about + 0.5);
    const std::int64_t first = low > 0 ? static_cast<std::int64_t>(low) : 0;
    const std::int64_t end = high < static_cast<double>(in) ? static_cast<std::int64_t>(high) : in;
    TapWindow made{first < in ? first : in - 1};
    made.count = end > made.first ? end - made.first : 1;
    made.part = middle - 0.5 - static_cast<double>(made.first);
    made.total = 0;
    for (std::int64_t k = 0; k < made.count; ++k)
      made.total += wide_weight(made.part, k);
    return made;
  }
};

}  // namespace sluice::detail
