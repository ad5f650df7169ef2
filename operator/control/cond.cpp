#include <sluice/ndarray/detail/located.h>
#include <sluice/operator/control/detail/body.h>
#include <sluice/operator/control/detail/turns.h>

namespace sluice {

namespace {

constexpr const char* k_name = "cond";

}  // namespace

Arrays cond(
    const NDArray& predicate,
    const Branch& then_body,
    const Branch& else_body,
    const Arrays& inputs,
    SourceLocation site) {
  return detail::located(site, [&]() -> Arrays {
    control::check_defined(k_name, "input", inputs);
    Arrays results = control::truth_of(k_name, predicate, site) ? then_body(inputs) : else_body(inputs);
    control::check_defined(k_name, "result", results);
    return results;
  });
}

}  // namespace sluice
