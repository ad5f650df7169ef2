#pragma once

// All cases of plain_made_cases.h and differentiable_cases.h, for those who only walk over them: compiling the cases
// takes longer than most tests, so one file does it for all.
#include "tests/operator/differentiable_case.h"
#include "tests/operator/plain_case.h"

namespace sluice::test {

std::vector<PlainCase> every_plain_case();
const std::vector<DifferentiableCase>& every_differentiable_case();

}  // namespace sluice::test
