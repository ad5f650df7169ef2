#pragma once

#include <cstdint>
#include <limits>

#include <sluice/operator/random/substream.h>

// What distributions make of an element's own numbers, in float64: one arithmetic for CPU and GPU.
namespace sluice::detail {

/// What a distribution has: numbers, and maybe an array with one in the first's place for each element.
struct DrawParameters {
  double at[4] = {};
  const double* each = nullptr;

  SLUICE_HD double first(std::int64_t element) const noexcept { return each == nullptr ? at[0] : each[element]; }
};

struct ExponentialDraw {
  SLUICE_HD static double draw(const DrawParameters& p, std::int64_t, SubStream& stream) noexcept {
    return (-exact_log(stream.unit()) * p.at[0]).value;
  }
};

struct LaplaceDraw {
  SLUICE_HD static double draw(const DrawParameters& p, std::int64_t, SubStream& stream) noexcept {
    const Exact u = stream.unit();
    if (u < 0.5)
      return (p.at[0] + p.at[1] * exact_log(2.0 * u)).value;
    return (p.at[0] - p.at[1] * exact_log(2.0 * (1.0 - u))).value;
  }
};

struct GumbelDraw {
  SLUICE_HD static double draw(const DrawParameters& p, std::int64_t, SubStream& stream) noexcept {
    return (p.at[0] - p.at[1] * exact_log(-exact_log(stream.unit()))).value;
  }
};

/// Marsaglia and Tsang, for alpha >= 1: of a normal number and a uniform one.
struct MarsagliaTsang {
  Exact d, c;

  SLUICE_HD explicit MarsagliaTsang(Exact alpha) noexcept : d(alpha - 1.0 / 3), c(1.0 / (3.0 * exact_root(d))) {}
  SLUICE_HD Exact cube(Exact x) const noexcept {
    const Exact root = 1.0 + c * x;
    return root * root * root;
  }
  /// Whether d * v is the gamma, of v = cube(x) above 0.
  SLUICE_HD bool takes(Exact x, Exact v, Exact u) const noexcept {
    return u < 1.0 - 0.0331 * (x * x) * (x * x) || exact_log(u) < 0.5 * x * x + d * (1.0 - v + exact_log(v));
  }
};

SLUICE_HD inline Exact large_gamma(Exact alpha, SubStream& stream) noexcept {
  const MarsagliaTsang of(alpha);
  for (int tries = 0; tries < SubStream::k_most_tries; ++tries) {
    const Exact x = stream.normal(), v = of.cube(x), u = stream.unit();
    if (v > 0.0 && of.takes(x, v, u))
      return of.d * v;
  }
  return of.d;
}

/// The logarithm: gammas of a small alpha are less than any number.
SLUICE_HD inline Exact log_gamma_draw(double alpha, SubStream& stream) noexcept {
  if (alpha >= 1)
    return exact_log(large_gamma(alpha, stream));
  const Exact larger = exact_log(large_gamma(alpha + 1, stream));
  return larger + exact_log(stream.unit()) / alpha;
}

struct GammaDraw {
  SLUICE_HD static double draw(const DrawParameters& p, std::int64_t element, SubStream& stream) noexcept {
    const double alpha = p.first(element);
    if (!(alpha > 0) || alpha > std::numeric_limits<double>::max())
      return std::numeric_limits<double>::quiet_NaN();
    const Exact drawn = alpha >= 1 ? large_gamma(alpha, stream) : exact_exp(log_gamma_draw(alpha, stream));
    return (drawn * p.at[1]).value;
  }
};

struct BetaDraw {
  SLUICE_HD static double draw(const DrawParameters& p, std::int64_t, SubStream& stream) noexcept {
    const Exact x = log_gamma_draw(p.at[0], stream), y = log_gamma_draw(p.at[1], stream), beyond = y - x;
    return beyond > 700.0 ? 0 : (1.0 / (1.0 + exact_exp(beyond))).value;
  }
};

/// Of k >= 10, what log k! is beyond (k + 1/2) log k - k + log(2 pi) / 2 (Stirling).
SLUICE_HD inline Exact stirling_rest(Exact k) noexcept {
  const Exact one = 1.0 / k, two = one * one;
  return one * (1.0 / 12 - two * (1.0 / 360 - two * (1.0 / 1260 - two * (1.0 / 1680))));
}

/// log of lam^k e^-lam / k!, where both may be so large that the three parts would cancel.
SLUICE_HD inline Exact log_poisson(Exact k, Exact lam) noexcept {
  if (k < 10.0) {
    Exact factorial = 1.0;
    for (int i = 2; i <= static_cast<int>(k.value); ++i)
      factorial = factorial * static_cast<double>(i);
    return k * exact_log(lam) - lam - exact_log(factorial);
  }
  const Exact x = (lam - k) / k;
  const bool near = x < 0.25 && x > -0.25;
  const Exact bulk = near ? k * exact_log1p_minus(x) : k * exact_log(lam / k) + (k - lam);
  return bulk - 0.5 * exact_log(6.283185307179586 * k) - stirling_rest(k);
}

struct PoissonDraw {
  static constexpr double k_most = 0x1p52, k_small = 10;

  SLUICE_HD static double draw(const DrawParameters& p, std::int64_t element, SubStream& stream) noexcept {
    const double lam = p.first(element);
    if (!(lam >= 0) || lam > k_most)
      return std::numeric_limits<double>::quiet_NaN();
    return lam < k_small ? small(lam, exact_exp(-lam), stream) : large(lam, stream);
  }
  /// Of lam < k_small: how many uniform numbers it takes until their product is below e^-lam.
  SLUICE_HD static double small(Exact lam, Exact end, SubStream& stream) noexcept {
    Exact product = stream.unit();
    double count = 0;
    for (; product > end && count < SubStream::k_most_tries; ++count)
      product = product * stream.unit();
    return lam.value == 0 ? 0 : count;
  }

 private:
  // PTRS: transformed rejection with a squeeze; constants are the paper's.
  SLUICE_HD static double large(Exact lam, SubStream& stream) noexcept {
    const Exact b = 0.931 + 2.53 * exact_root(lam), a = -0.059 + 0.02483 * b;
    const Exact inverse_alpha = 1.1239 + 1.1328 / (b - 3.4), v_r = 0.9277 - 3.6224 / (b - 2.0);
    for (int tries = 0; tries < SubStream::k_most_tries; ++tries) {
      const Exact u = stream.unit() - 0.5, v = stream.unit();
      const Exact us = 0.5 - (u < 0.0 ? -u : u);
      const double k = std::floor(((2.0 * a / us + b) * u + lam + 0.43).value);
      if (us >= 0.07 && v <= v_r)
        return k;
      if (k < 0 || (us < 0.013 && v > us))
        continue;
      if (exact_log(v * inverse_alpha / (a / (us * us) + b)) <= log_poisson(k, lam))
        return k;
    }
    return std::floor(lam.value);
  }
};

/// Numbers: mean and deviation; at[2] and at[3] are the ends, in the type that is made.
struct TruncatedDraw {
  /// The ends in deviations from the mean.
  struct Ends {
    Exact a, b;
    SLUICE_HD explicit Ends(const DrawParameters& p) noexcept
        : a((Exact(p.at[2]) - p.at[0]) / p.at[1]), b((Exact(p.at[3]) - p.at[0]) / p.at[1]) {}
    SLUICE_HD bool are_narrow() const noexcept { return b - a < 2.5066282746310002; }  // root of 2 pi
    /// 0, and so much beside it that normal numbers often lie there.
    SLUICE_HD bool are_around() const noexcept { return a <= 0.0 && b >= 0.0 && !are_narrow(); }
  };

  SLUICE_HD static double draw(const DrawParameters& p, std::int64_t, SubStream& stream) noexcept {
    const Ends of(p);
    const Exact a = of.a, b = of.b;
    return placed(p, a > 0.0 ? beyond(a, b, stream) : b < 0.0 ? -beyond(-b, -a, stream) : around(of, stream));
  }
  /// Of deviations from the mean, z of them.
  SLUICE_HD static double placed(const DrawParameters& p, Exact z) noexcept {
    const Exact low = p.at[2], high = p.at[3], drawn = z * p.at[1] + p.at[0];
    return drawn < low ? low.value : drawn > high ? high.value : drawn.value;  // rounding
  }

 private:
  // Of an interval about 0: normal numbers that lie there, or, where few would, even ones that are kept by their
  // height.
  SLUICE_HD static Exact around(const Ends& of, SubStream& stream) noexcept {
    const Exact a = of.a, b = of.b;
    const bool narrow = of.are_narrow();
    for (int tries = 0; tries < SubStream::k_most_tries; ++tries) {
      if (narrow) {
        const Exact z = a + (b - a) * stream.unit();
        if (stream.unit() <= exact_exp(-0.5 * z * z))
          return z;
      } else if (const Exact z = stream.normal(); z >= a && z <= b) {
        return z;
      }
    }
    return 0.0;
  }
  // Of [a, b] with a > 0: exponential numbers from a on, or even ones where b comes first.
  SLUICE_HD static Exact beyond(Exact a, Exact b, SubStream& stream) noexcept {
    const Exact rate = 0.5 * (a + exact_root(a * a + 4.0));
    const bool narrow = (b - a) * rate < 1.0;
    for (int tries = 0; tries < SubStream::k_most_tries; ++tries) {
      if (narrow) {
        const Exact z = a + (b - a) * stream.unit();
        if (stream.unit() <= exact_exp(0.5 * (a - z) * (a + z)))
          return z;
      } else {
        const Exact z = a - exact_log(stream.unit()) / rate, off = z - rate;
        if (stream.unit() <= exact_exp(-0.5 * off * off) && z <= b)
          return z;
      }
    }
    return a;
  }
};

}  // namespace sluice::detail
