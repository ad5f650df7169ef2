// How many states a rule keeps, said without their names.
#include <sluice/operator/update/attributes.h>

#include "tests/support/catch.h"

using namespace sluice;

namespace {

template <class Rule>
void check_states(const Rule& rule) {
  CHECK(detail::count_states(rule) == rule.states().size());
}

}  // namespace

TEST_CASE("Rules of updates keep as many states as they have names for", "[update]") {
#define SLUICE_UPDATE_RULE(Rule, name) check_states(update_rules::Rule{});
  SLUICE_UPDATE_RULES(SLUICE_UPDATE_RULE)
#undef SLUICE_UPDATE_RULE
  check_states(update_rules::Sgd{.momenta = true});
  check_states(update_rules::Nag{.momentum = 0});
  check_states(update_rules::Signum{.momentum = 0});
  check_states(update_rules::RmsProp{.momentum = 0.5});
  check_states(update_rules::RmsProp{.centered = true});
  check_states(update_rules::Dcasgd{.momentum = 0.5});
  check_states(update_rules::Adafactor{.momentum = 0.5});
}
