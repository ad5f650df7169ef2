#include <variant>

#include <sluice/ndarray/detail/simd_build.h>
#include <sluice/operator/simd/update.h>

#if SLUICE_HIGHWAY
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE <sluice/operator/simd/update.cpp>
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#if SLUICE_SIMD_HERE
HWY_BEFORE_NAMESPACE();
namespace sluice::simd::HWY_NAMESPACE {
namespace {

// Plain loops, which the compiler turns into vectors of the set that this is compiled for: the rules stand once, in
// rule.h. Which of them, and whether it is the first pass of two, is settled outside.
template <bool First, class R>
constexpr int states_of() {
  if constexpr (First)
    return detail::direction_states<R>();
  return R::k_states;
}

template <bool First, class R>
constexpr int written_of() {
  if constexpr (First)
    return R::k_direction_changes ? detail::written_states<R>() : 0;
  return detail::written_states<R>();
}

template <bool First, class R, class C>
bool step(const R rule, const UpdateRun<C>& run) {
  constexpr int k = states_of<First, R>(), written = written_of<First, R>();
  C* HWY_RESTRICT to = First ? run.direction[0] : run.weight;
  [[maybe_unused]] C* HWY_RESTRICT other = run.direction[1];
  const C* weight = run.weight;
  const C* HWY_RESTRICT grad = run.grad;
  C* HWY_RESTRICT state0 = run.state[0];
  C* HWY_RESTRICT state1 = run.state[1];
  C* HWY_RESTRICT state2 = run.state[2];
  const detail::Rates<C> rates = run.rates;
  const detail::GradientForm<C> form = run.form;
  const std::int64_t n = run.n;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) {
    C state[] = {k > 0 ? state0[i] : C{0}, k > 1 ? state1[i] : C{0}, k > 2 ? state2[i] : C{0}};
    const C w = weight[i], g = form.of(grad[i]);
    if constexpr (First) {
      C made[R::k_directions];
      rule.directions(w, g, state, rates, made);
      to[i] = made[0];
      if constexpr (R::k_directions > 1)
        other[i] = made[1];
    } else {
      to[i] = rule.step(w, g, state, rates);
    }
    if constexpr (written > 0)
      state0[i] = state[0];
    if constexpr (written > 1)
      state1[i] = state[1];
    if constexpr (written > 2)
      state2[i] = state[2];
  }
  return true;
}

template <class C>
bool update_run(const detail::AnyRule<C>& any, const UpdateRun<C>& run) {
  return std::visit(
      [&]<class R>(const R& rule) {
        if constexpr (R::k_trusted) {
          if (run.direction[0] != nullptr)
            return step<true>(rule, run);
        }
        return step<false>(rule, run);
      },
      any);
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class C>
bool update([[maybe_unused]] const detail::AnyRule<C>& rule, [[maybe_unused]] const UpdateRun<C>& run) {
  SLUICE_SIMD_RETURN(update_run(rule, run))
  return false;
}

template bool update(const detail::AnyRule<float>&, const UpdateRun<float>&);
template bool update(const detail::AnyRule<double>&, const UpdateRun<double>&);

}  // namespace sluice::simd
#endif
