#include <algorithm>

#include <sluice/operator/resize/taps.h>

namespace sluice::detail {

namespace {

/// Where result i lies: behind `lower`, which may be -1 or less, by a part of a step.
struct Place {
  std::int64_t lower;
  double part;
};

Place place_of(std::int64_t i, std::int64_t in, std::int64_t out, bool corners, bool keeps_inside) {
  const std::int64_t unit = corners ? std::max<std::int64_t>(out - 1, 1) : 2 * out;
  std::int64_t steps = corners ? i * (in - 1) : i * 2 * in + in - out;
  if (keeps_inside)
    steps = std::max<std::int64_t>(steps, 0);
  const std::int64_t lower = steps >= 0 ? steps / unit : -((-steps + unit - 1) / unit);
  return {lower, static_cast<double>(steps - lower * unit) / static_cast<double>(unit)};
}

// Keys' spline, a = -0.75, within 1 of its middle, and from there to 2.
constexpr double k_spline = -0.75;
double spline_near(double x) noexcept {
  return ((k_spline + 2) * x - (k_spline + 3)) * x * x + 1;
}
double spline_far(double x) noexcept {
  return ((k_spline * x - 5 * k_spline) * x + 8 * k_spline) * x - 4 * k_spline;
}

template <class C>
void add_term(Taps<C>& taps, std::int64_t place, C weight) {
  taps.place.push_back(static_cast<std::int32_t>(std::clamp<std::int64_t>(place, 0, taps.from - 1)));
  taps.weight.push_back(weight);
}

template <class C>
void add_terms(Taps<C>& taps, TapKind kind, std::int64_t i, bool corners) {
  if (taps.from == taps.to)
    return add_term(taps, i, C{1});
  if (kind == TapKind::nearest)
    return add_term(taps, i * taps.from / taps.to, C{1});
  const Place at = place_of(i, taps.from, taps.to, corners, kind == TapKind::linear);
  if (kind == TapKind::linear) {
    const C part = static_cast<C>(at.part);
    add_term(taps, at.lower, C{1} - part);
    return add_term(taps, at.lower + 1, part);
  }
  const double rest = 1 - at.part;
  add_term(taps, at.lower - 1, static_cast<C>(spline_far(at.part + 1)));
  add_term(taps, at.lower, static_cast<C>(spline_near(at.part)));
  add_term(taps, at.lower + 1, static_cast<C>(spline_near(rest)));
  add_term(taps, at.lower + 2, static_cast<C>(spline_far(rest + 1)));
}

}  // namespace

template <class C>
Taps<C> taps_of(TapKind kind, std::int64_t in, std::int64_t out, bool corners) {
  Taps<C> taps{in, out, {0}, {}, {}};
  for (std::int64_t i = 0; i < out; ++i) {
    add_terms(taps, kind, i, corners);
    taps.begin.push_back(static_cast<std::int64_t>(taps.place.size()));
  }
  return taps;
}

template <class C>
Taps<C> turned(const Taps<C>& taps) {
  Taps<C> made{taps.to, taps.from, std::vector<std::int64_t>(taps.from + 1), {}, {}};
  for (const std::int32_t place : taps.place)
    ++made.begin[place + 1];
  for (std::int64_t i = 0; i < taps.from; ++i) {
    made.is_even = made.is_even && made.begin[i + 1] == made.begin[1];
    made.begin[i + 1] += made.begin[i];
  }
  made.place.resize(taps.place.size());
  made.weight.resize(taps.place.size());
  std::vector<std::int64_t> next(made.begin.begin(), made.begin.end() - 1);
  for (std::int64_t i = 0; i < taps.to; ++i) {
    for (std::int64_t term = taps.begin[i]; term < taps.begin[i + 1]; ++term) {
      const std::int64_t at = next[taps.place[term]]++;
      made.place[at] = static_cast<std::int32_t>(i);
      made.weight[at] = taps.weight[term];
    }
  }
  return made;
}

template Taps<float> taps_of(TapKind, std::int64_t, std::int64_t, bool);
template Taps<double> taps_of(TapKind, std::int64_t, std::int64_t, bool);
template Taps<float> turned(const Taps<float>&);
template Taps<double> turned(const Taps<double>&);

}  // namespace sluice::detail
