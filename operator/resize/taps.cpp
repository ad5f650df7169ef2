#include <sluice/operator/resize/taps.h>

namespace sluice::detail {

template <class C>
Taps<C> taps_of(const TapRule& rule) {
  Taps<C> taps{rule.in, rule.out, {0}, {}, {}};
  for (std::int64_t i = 0; i < rule.out; ++i) {
    const TapWindow at = rule.window(i);
    for (std::int64_t place = rule.begin(at), end = rule.end(at); place < end; ++place) {
      taps.place.push_back(static_cast<std::int32_t>(place));
      taps.weight.push_back(rule.weight_of_element<C>(at, place));
    }
    taps.begin.push_back(static_cast<std::int64_t>(taps.place.size()));
  }
  return taps;
}

template <class C>
Taps<C> turned(const Taps<C>& taps) {
  Taps<C> made{taps.to, taps.from, std::vector<std::int64_t>(taps.from + 1), {}, {}};
  for (const std::int32_t place : taps.place)
    ++made.begin[place + 1];
  for (std::int64_t i = 0; i < taps.from; ++i)
    made.begin[i + 1] += made.begin[i];
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

template Taps<float> taps_of(const TapRule&);
template Taps<double> taps_of(const TapRule&);
template Taps<float> turned(const Taps<float>&);
template Taps<double> turned(const Taps<double>&);

}  // namespace sluice::detail
