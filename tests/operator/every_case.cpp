#include "tests/operator/every_case.h"

#include "tests/operator/differentiable_cases.h"
#include "tests/operator/plain_made_cases.h"

namespace sluice::test {

std::vector<PlainCase> every_plain_case() {
  return all_plain_cases();
}

const std::vector<DifferentiableCase>& every_differentiable_case() {
  return differentiable_cases();
}

}  // namespace sluice::test
