#pragma once

// Functions of the formulas that the C++ library lacks, or has with fewer digits: inverse error function, the gamma
// function and what belongs to it. Those around the gamma function are worked out in double for float too: near their
// zeros terms cancel.
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>

#include <sluice/operator/elementwise/math.h>

namespace sluice::math {

inline constexpr double k_pi = 3.14159265358979323846;

/// A polynomial, its coefficients from the highest power down.
template <std::floating_point T, class... C>
SLUICE_HD inline T polynomial(T x, double first, C... rest) {
  T sum = static_cast<T>(first);
  ((sum = sum * x + static_cast<T>(rest)), ...);
  return sum;
}

/// x less the nearest whole number: sine and tangent of pi x have the same digits of it.
template <std::floating_point T>
SLUICE_HD inline T beyond_whole(T x) {
  return x - std::rint(x);
}
template <std::floating_point T>
SLUICE_HD inline T sin_pi(T x) {
  const T whole = std::rint(x), y = std::sin((x - whole) * static_cast<T>(k_pi)), half = whole / 2;
  return std::rint(half) == half ? y : -y;
}
/// By the sine of what is left to the next half: around the zeros no digits are lost.
template <std::floating_point T>
SLUICE_HD inline T cos_pi(T x) {
  return std::sin((T(0.5) - std::abs(x - 2 * std::rint(x / 2))) * static_cast<T>(k_pi));
}

// erfinv(x) / x by w = -log(1 - x^2), further out by its root. Coefficients by Chebyshev interpolation in 50 digits;
// their relative error is below 1.6e-7 for float and 3e-16 for double.
SLUICE_HD inline float erfinv_ratio(float w) {
  if (w < 5)
    return polynomial(
        w - 2.5f,
        2.260597774117097464e-8,
        3.42224708993456889e-7,
        -3.454779514269784322e-6,
        -4.380346714123750126e-6,
        0.0002183129798410102531,
        -0.001253758884835318065,
        -0.004177346517287056157,
        0.2466407662672499069,
        1.501409351110791925);
  return polynomial(
      std::sqrt(w) - 3,
      -0.0001712123938673878691,
      0.00007677498838277570417,
      0.001313706533752146101,
      -0.003647757398461451952,
      0.005753949589111972855,
      -0.007630173254750358643,
      0.009436851449928092552,
      1.001674662958873609,
      2.832976967338588262);
}
SLUICE_HD inline double erfinv_ratio_near(double t) {
  return polynomial(
      t,
      -2.362369698566107415e-22,
      -1.678733061525677187e-19,
      1.102777159150003294e-18,
      1.112579475937946487e-17,
      -1.290702354613073043e-16,
      2.166994626283573966e-17,
      6.581955305929238861e-15,
      -4.055413974688600513e-14,
      -8.106594456438495118e-14,
      2.633572492460848406e-12,
      -1.297750520201496652e-11,
      -5.415441775469663505e-11,
      1.051220244012178407e-9,
      -4.112633104297613913e-9,
      -2.907038666019142947e-8,
      4.234787767278065297e-7,
      -1.365469179659206836e-6,
      -0.00001388252336127687621,
      0.0001867342080212427157,
      -0.0007407025341669401081,
      -0.006033670871427011297,
      0.2401581824255897099,
      1.653654562683102712);
}
SLUICE_HD inline double erfinv_ratio_far(double root) {
  if (root < 4)
    return polynomial(
        root - 3.25,
        -3.83103994607241138e-10,
        9.07195057102992253e-8,
        -2.686097572557146095e-7,
        1.832399988132857768e-8,
        1.495826315298491744e-6,
        -4.013946398190291884e-6,
        2.92737221159869259e-6,
        0.00001247534347437693077,
        -0.00004731952918337189016,
        0.00006828484052292923372,
        0.0000240313632454405481,
        -0.0003550375186306976015,
        0.0009532893521118177756,
        -0.001688275556168180298,
        0.002491442097619881211,
        -0.00375120850756385379,
        0.005370914553558198322,
        1.005258967694159203,
        3.083885610492220676);
  return polynomial(
      root - 5,
      -1.184441172018340021e-11,
      -2.541703199880913984e-10,
      1.447368620024511729e-9,
      -3.79436725078516298e-9,
      7.712359852417722733e-9,
      -1.495318235881130859e-8,
      2.906732237981738402e-8,
      -6.771682110498342852e-8,
      2.290420516111923933e-7,
      -9.929809289463065306e-7,
      4.526053271480737721e-6,
      -0.00001968177844581084194,
      0.00007599527817598087251,
      -0.0002150301192725898487,
      -0.0001387193183898123478,
      1.010300464864533755,
      4.849906401408584451);
}
SLUICE_HD inline double erfinv_ratio(double w) {
  return w < 6.25 ? erfinv_ratio_near(w - 3.125) : erfinv_ratio_far(std::sqrt(w));
}
/// Infinite at -1 and 1, NaN beyond.
template <std::floating_point T>
SLUICE_HD inline T erfinv(T x) {
  const T w = -std::log((1 - x) * (1 + x));
  return x == 1 || x == -1 ? x * std::numeric_limits<T>::infinity() : x * erfinv_ratio(w);
}

/// log(x / (1 - x)), exact around 1/2 too.
template <std::floating_point T>
SLUICE_HD inline T logit(T x) {
  if (x > T(0.25) && x < T(0.75))
    return 2 * std::atanh(2 * x - 1);
  return log(x / (1 - x));
}

/// Poles are NaN but 0, which is an infinity of its sign.
template <std::floating_point T>
SLUICE_HD inline T gamma(T x) {
  return static_cast<T>(std::tgamma(static_cast<double>(x)));
}
/// Of its magnitude; infinite at poles.
template <std::floating_point T>
SLUICE_HD inline T gammaln(T x) {
#ifdef __CUDA_ARCH__
  return static_cast<T>(std::lgamma(static_cast<double>(x)));
#else
  int sign = 0;  // std::lgamma writes it to a variable that all threads share
  return static_cast<T>(::lgamma_r(static_cast<double>(x), &sign));
#endif
}

// By recurrence up to 10, from there by the asymptotic series.
SLUICE_HD inline double digamma_of_positive(double x) {
  double before = 0;
  for (; x < 10; x += 1)
    before += 1 / x;
  const double y = 1 / (x * x);
  const double series = polynomial(y, 1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12);
  return std::log(x) - 0.5 / x - y * series - before;
}
/// The derivative of gammaln. An infinity of the other sign at 0, NaN at the other poles.
template <std::floating_point T>
SLUICE_HD inline T digamma(T x) {
  const auto at = static_cast<double>(x);
  if (at == 0)
    return std::copysign(std::numeric_limits<T>::infinity(), -x);
  if (!(at < 0))
    return static_cast<T>(digamma_of_positive(at));
  const double beyond = beyond_whole(at);
  return static_cast<T>(beyond == 0 ? beyond / beyond : digamma_of_positive(1 - at) - k_pi / std::tan(beyond * k_pi));
}

/// The sum of (x + k)^-s over all k from 0, x > 0 and s > 1 (Hurwitz' zeta): terms up to where Euler and Maclaurin's
/// series converges, then that. After a thousand nothing is left where that is further: terms fall the faster.
SLUICE_HD inline double sum_of_powers(double s, double x) {
  double sum = 0;
  const double far = 12 + s / 2;
  for (int terms = 0; terms < 1000 && x < far; ++terms, x += 1)
    sum += std::pow(x, -s);
  const double last = std::pow(x, -s), y = 1 / (x * x);
  const double bernoulli[] = {
      1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6, -3617.0 / 510, 43867.0 / 798};
  double tail = x / (s - 1) + 0.5, factor = s / (2 * x);
  for (int k = 0; k < 9; ++k) {
    tail += bernoulli[k] * factor;
    factor *= (s + 2 * k + 1) * (s + 2 * k + 2) / ((2 * k + 3) * (2 * k + 4)) * y;
  }
  return last == 0 ? sum : sum + last * tail;
}
/// The n-th derivative of digamma. Infinite at the poles, 0 at infinity.
template <std::floating_point T>
SLUICE_HD inline T polygamma(T x, T n) {
  if (n == 0)
    return digamma(x);
  const double at = static_cast<double>(x), s = static_cast<double>(n) + 1;
  const double sign = std::fmod(s, 2.0) == 0 ? 1 : -1, whole = std::floor(at);
  double sum = std::numeric_limits<double>::infinity();
  if (!(at <= 0)) {
    sum = sum_of_powers(s, at);
  } else if (at != whole) {
    // The terms below 0 are those of a sum that begins above 0, up to where it would go on.
    // What is left to the next whole number is exact, as 1 - part is not.
    const double part = at - whole, rest = whole + 1 - at;
    sum = sum_of_powers(s, part) + sign * (sum_of_powers(s, rest) - sum_of_powers(s, 1 - at));
  }
  return static_cast<T>(sign * std::tgamma(s) * sum);
}
template <std::floating_point T>
SLUICE_HD inline T next_polygamma(T x, T n) {
  return polygamma(x, n + 1);
}

}  // namespace sluice::math
