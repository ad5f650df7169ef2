#include <type_traits>

#include <sluice/ndarray/create.h>
#include <sluice/operator/concat/concat.h>
#include <sluice/operator/elementwise/elementwise.h>
#include <sluice/operator/update/corrections.h>

namespace sluice {

namespace rules = update_rules;

template <class Rule>
bool corrects_steps([[maybe_unused]] const Rule& rule) noexcept {
  if constexpr (std::is_same_v<Rule, rules::Lamb>)
    return rule.bias_correction;
  else
    return std::is_same_v<Rule, rules::Adafactor> || std::is_same_v<Rule, rules::Adam> ||
           std::is_same_v<Rule, rules::AdamW>;
}

template <class Rule>
NDArray step_corrections(
    [[maybe_unused]] const Rule& rule, [[maybe_unused]] const NDArray& steps, [[maybe_unused]] SourceLocation site) {
  if constexpr (std::is_same_v<Rule, rules::Adafactor>) {
    const NDArray rest = power(steps, rule.beta2_decay, site);
    return stack({ones_like(rest, site), rest, power(steps, -0.5, site)}, 1, site).reshape({-1}, site);
  } else if constexpr (requires { rule.beta1; }) {
    if (!corrects_steps(rule))
      return {};
    const NDArray root = sqrt(subtract(1, power(rule.beta2, steps, site), site), site);
    const NDArray rate = divide(root, subtract(1, power(rule.beta1, steps, site), site), site);
    if constexpr (std::is_same_v<Rule, rules::Adam>)
      return rate;
    else
      return stack({ones_like(rate, site), rate, root}, 1, site).reshape({-1}, site);
  } else {
    return {};
  }
}

#define SLUICE_UPDATE_RULE(Rule)                                    \
  template bool corrects_steps(const update_rules::Rule&) noexcept; \
  template NDArray step_corrections(const update_rules::Rule&, const NDArray&, SourceLocation)
SLUICE_UPDATE_RULE(Sgd);
SLUICE_UPDATE_RULE(Nag);
SLUICE_UPDATE_RULE(Adam);
SLUICE_UPDATE_RULE(AdamW);
SLUICE_UPDATE_RULE(RmsProp);
SLUICE_UPDATE_RULE(AdaGrad);
SLUICE_UPDATE_RULE(AdaDelta);
SLUICE_UPDATE_RULE(Ftrl);
SLUICE_UPDATE_RULE(Signum);
SLUICE_UPDATE_RULE(Lars);
SLUICE_UPDATE_RULE(Lamb);
SLUICE_UPDATE_RULE(Adafactor);
#undef SLUICE_UPDATE_RULE

}  // namespace sluice
