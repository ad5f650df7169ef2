#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <sluice/operator/random/blocks_cpu.h>
#include <sluice/operator/random/draws.h>

// Distributions that reject, some elements at a time: the bits of what draws.h makes of each. A try is one for all that
// still have none, its logarithms in vectors.
namespace sluice::detail {

/// Normal numbers of neighbouring elements, as SubStream::normal() makes them: a try is a block.
class NormalsAtATime {
 public:
  static constexpr std::int64_t k_most = BlocksAtATime::k_most;

  NormalsAtATime(const RandomBlock& random, const simd::RandomRows& rows) noexcept
      : random_(random), rows_(rows), blocks_(random) {}

  /// The block of an element's try, from 0 on.
  PhiloxBlock block(std::int64_t element, std::uint32_t tried) const noexcept {
    const std::uint64_t counter = random_.offset + static_cast<std::uint64_t>(element);
    return philox(
        {{static_cast<std::uint32_t>(counter), static_cast<std::uint32_t>(counter >> 32), tried, 0}},
        static_cast<std::uint32_t>(random_.seed),
        static_cast<std::uint32_t>(random_.seed >> 32));
  }
  static double unit(const PhiloxBlock& of, int half) noexcept {
    return SubStream::unit_of(std::uint64_t{of.word[2 * half + 1]} << 32 | of.word[2 * half]).value;
  }

  /// Elements [first, first + n), n <= k_most, count from 0 here. Calls take(i, normal, tried), which says whether that
  /// is all that the element wants of tries, and after some tries leave(i) of those that have not enough.
  template <class Take, class Leave>
  void draw(std::int64_t first, std::int64_t n, const Take& take, const Leave& leave) {
    constexpr std::uint32_t k_tries = 16;
    for (std::int64_t i = 0; i < n; ++i)
      waiting_[i] = static_cast<std::int32_t>(i);
    std::int64_t count = n;
    for (std::uint32_t tried = 0; tried < k_tries && count > 0; ++tried) {
      if (tried == 0)
        blocks_.make(first, n);
      std::int64_t made = 0, kept = 0;
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int32_t i = waiting_[j];
        const PhiloxBlock here = tried == 0 ? blocks_[i] : block(first + i, tried);
        const double x = 2.0 * unit(here, 0) - 1.0, y = 2.0 * unit(here, 1) - 1.0, s = x * x + y * y;
        const bool is_inside = s < 1.0 && s > 0.0;
        element_[made] = i;
        x_[made] = x;
        s_[made] = s;
        made += is_inside ? 1 : 0;
        waiting_[kept] = i;
        kept += is_inside ? 0 : 1;
      }
      count = take_all(made, kept, tried, take);
    }
    for (std::int64_t j = 0; j < count; ++j)
      leave(waiting_[j]);
  }

 private:
  // Puts those that go on waiting behind the `kept` that do, and returns how many these are.
  template <class Take>
  std::int64_t take_all(std::int64_t made, std::int64_t kept, std::uint32_t tried, const Take& take) {
    const std::int64_t whole = whole_groups(made);
    std::copy_n(s_, made, log_);
    std::fill(log_ + made, log_ + whole, 1.0);
    rows_.log(log_, whole);
    for (std::int64_t j = 0; j < made; ++j)
      x_[j] = x_[j] * std::sqrt(-2.0 * log_[j] / s_[j]);
    for (std::int64_t j = 0; j < made; ++j) {
      waiting_[kept] = element_[j];
      kept += take(element_[j], x_[j], tried) ? 0 : 1;
    }
    return kept;
  }

  RandomBlock random_;
  const simd::RandomRows& rows_;
  BlocksAtATime blocks_;
  std::int32_t waiting_[k_most + 1], element_[k_most + 1];
  double x_[k_most + 1], s_[k_most + 1], log_[k_most];
};

/// Elements [first, ..) that are drawn: put(i, drawn) takes what came of one, again(i) those that draws.h is to draw.
template <class Put, class Again>
struct TriedElements {
  const NormalsAtATime& normals;
  std::int64_t first;
  const Put& put;
  const Again& again;
};

/// take() is told an element's try and its normal number, and says whether that is all that the element wants.
template <class Draw>
struct TriedDraw {
  static constexpr bool exists = false;
};

template <>
struct TriedDraw<TruncatedDraw> {
  static constexpr bool exists = true;
  static bool serves(const DrawParameters& p) noexcept { return TruncatedDraw::Ends(p).are_around(); }

  explicit TriedDraw(const DrawParameters& p) : parameters(p), ends(p) {}

  template <class Of>
  bool take(const Of& of, std::int64_t i, double z, std::uint32_t) const {
    const bool lies_there = z >= ends.a.value && z <= ends.b.value;
    if (lies_there)
      of.put(i, TruncatedDraw::placed(parameters, z));
    return lies_there;
  }

  const DrawParameters& parameters;
  const TruncatedDraw::Ends ends;
};

template <>
struct TriedDraw<GammaDraw> {
  static constexpr bool exists = true;
  static bool serves(const DrawParameters& p) noexcept {
    return p.each == nullptr && p.at[0] >= 1 && p.at[0] <= std::numeric_limits<double>::max();
  }

  explicit TriedDraw(const DrawParameters& p) : scale(p.at[1]), squeeze(p.at[0]) {}

  // One normal number and a uniform one from the block behind it, which are enough for nearly all.
  template <class Of>
  bool take(const Of& of, std::int64_t i, double x, std::uint32_t tried) const {
    const Exact v = squeeze.cube(x);
    if (v > 0.0 && squeeze.takes(x, v, NormalsAtATime::unit(of.normals.block(of.first + i, tried + 1), 0)))
      of.put(i, (squeeze.d * v * scale).value);
    else
      of.again(i);
    return true;
  }

  const double scale;
  const MarsagliaTsang squeeze;
};

}  // namespace sluice::detail
