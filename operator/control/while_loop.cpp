#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/control/detail/body.h>
#include <sluice/operator/control/detail/turns.h>

namespace sluice {

namespace {

constexpr const char* k_name = "while_loop";

LoopResult turn_by_turn(
    const LoopCondition& condition,
    const LoopBody& body,
    const Arrays& loop_vars,
    std::int64_t max_iterations,
    SourceLocation site) {
  control::Turns turns(k_name, loop_vars);
  while (turns.taken() < max_iterations && control::truth_of(k_name, condition(turns.states()), site))
    turns.add(body(turns.states()));
  if (turns.taken() == 0)
    turns.none_taken(control::specs_of_outputs(
        [&](const Arrays&, const Arrays& states) { return body(states); }, {}, loop_vars, k_name));
  return {turns.stacked(max_iterations, site), turns.states()};
}

}  // namespace

LoopResult while_loop(
    const LoopCondition& condition,
    const LoopBody& body,
    const Arrays& loop_vars,
    std::int64_t max_iterations,
    SourceLocation site) {
  return detail::located(site, [&]() -> LoopResult {
    require<ValueError>(!loop_vars.empty(), [] { return "while_loop: was given no loop_vars"; });
    require<ValueError>(
        max_iterations >= 0, [&] { return message("while_loop: max_iterations of ", max_iterations, " is negative"); });
    return turn_by_turn(condition, body, loop_vars, max_iterations, site);
  });
}

}  // namespace sluice
