#pragma once

#include <sluice/operator/update/rules.h>
#include <sluice/operator/update/work.h>

// Rules as the kernels take them.
namespace sluice::detail {

template <class C>
AnyRule<C> kernel_rule(const update_rules::Sgd& r) {
  if (!r.momenta)
    return SgdRule<C>{};
  return MomentumRule<C>{static_cast<C>(r.momentum)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Nag& r) {
  if (r.momentum == 0)
    return SgdRule<C>{};
  return NagRule<C>{static_cast<C>(r.momentum)};
}
template <class C, class Rule>
GradientMoments<C> moments_of(const Rule& r) {
  return {Beta<C>(r.beta1), Beta<C>(r.beta2)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Adam& r) {
  return AdamRule<C>{moments_of<C>(r), static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::AdamW& r) {
  return AdamWRule<C>{moments_of<C>(r)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::AdaBelief& r) {
  return AdaBeliefRule<C>{Beta<C>(r.beta1), Beta<C>(r.beta2), static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Adamax& r) {
  return AdamaxRule<C>{Beta<C>(r.beta1), static_cast<C>(r.beta2)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Nadam& r) {
  return NadamRule<C>{moments_of<C>(r)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Ftml& r) {
  return FtmlRule<C>{moments_of<C>(r), static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Sgld&) {
  return SgldRule<C>{};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Dcasgd& r) {
  const C momentum = static_cast<C>(r.momentum), lamda = static_cast<C>(r.lamda);
  if (r.momentum == 0)
    return DcasgdRule<C, false>{momentum, lamda};
  return DcasgdRule<C, true>{momentum, lamda};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::RmsProp& r) {
  const Beta<C> rho(r.rho);
  const C epsilon = static_cast<C>(r.epsilon), momentum = static_cast<C>(r.momentum);
  if (r.centered)
    return RmsPropRule<C, true, true>{rho, epsilon, momentum};
  if (r.momentum != 0)
    return RmsPropRule<C, true, false>{rho, epsilon, momentum};
  return RmsPropRule<C, false, false>{rho, epsilon};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::AdaGrad& r) {
  return AdaGradRule<C>{static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::AdaDelta& r) {
  return AdaDeltaRule<C>{Beta<C>(r.rho), static_cast<C>(r.epsilon)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Ftrl& r) {
  return FtrlRule<C>{static_cast<C>(r.lamda1), static_cast<C>(r.beta)};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Signum& r) {
  const C wd_lh = static_cast<C>(r.wd_lh);
  if (r.momentum == 0)
    return SignumRule<C, false>{{}, wd_lh};
  return SignumRule<C, true>{Beta<C>(r.momentum), wd_lh};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Lars& r) {
  return LarsRule<C>{{static_cast<C>(r.momentum)}, r.eta, r.epsilon};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Lamb& r) {
  return LambRule<C>{moments_of<C>(r), {r.lower_bound, r.upper_bound}};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Lans& r) {
  return LansRule<C>{moments_of<C>(r), static_cast<C>(r.epsilon), {r.lower_bound, r.upper_bound}};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::Lbsgd& r) {
  const C momentum = static_cast<C>(r.momentum);
  if (r.lars)
    return LbsgdRule<C, true>{momentum};
  return LbsgdRule<C, false>{momentum};
}

// UpdateWork::factored and ::grouped say these.
template <class C>
AnyRule<C> kernel_rule(const update_rules::Adafactor&) {
  return {};
}
template <class C>
AnyRule<C> kernel_rule(const update_rules::GroupAdaGrad&) {
  return {};
}

}  // namespace sluice::detail
