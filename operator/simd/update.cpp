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

// A plain loop, which the compiler turns into vectors of the set that this is compiled for: the rule stands once, in
// rule.h. Whether there are states is settled outside of it.
template <bool First, bool Second, class C>
bool step(detail::UpdateRule<C> rule, const UpdateRun<C>& run) {
  C* HWY_RESTRICT weight = run.weight;
  const C* HWY_RESTRICT grad = run.grad;
  C* HWY_RESTRICT first = run.first;
  C* HWY_RESTRICT second = run.second;
  const C rate = run.learning_rate, decay = run.weight_decay;
  rule.adam = Second;
  const std::int64_t n = run.n;
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i)
    weight[i] = rule.step(weight[i], grad[i], First ? first + i : nullptr, Second ? second + i : nullptr, rate, decay);
  return true;
}

template <class C>
bool update_run(const detail::UpdateRule<C>& rule, const UpdateRun<C>& run) {
  return rule.adam              ? step<true, true>(rule, run)
         : run.first != nullptr ? step<true, false>(rule, run)
                                : step<false, false>(rule, run);
}

}  // namespace
}  // namespace sluice::simd::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif
#endif

#if !SLUICE_HIGHWAY || HWY_ONCE
namespace sluice::simd {

template <class C>
bool update([[maybe_unused]] const detail::UpdateRule<C>& rule, [[maybe_unused]] const UpdateRun<C>& run) {
  SLUICE_SIMD_RETURN(update_run(rule, run))
  return false;
}

template bool update(const detail::UpdateRule<float>&, const UpdateRun<float>&);
template bool update(const detail::UpdateRule<double>&, const UpdateRun<double>&);

}  // namespace sluice::simd
#endif
